import { harnessSuite } from "./suite.ts";

harnessSuite(0, 2);
