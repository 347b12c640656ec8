import { harnessSuite } from "./suite.ts";

harnessSuite(1, 2);
