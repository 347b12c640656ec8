import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, expect, it } from "vitest";
import { type Receiver, startReceiver } from "../../support/receiver.ts";

let receiver: Receiver;
afterEach(() => receiver.close());

it("takes whole requests, and drops one that is cut off without a word: a rejection nobody handles would fail the run", async () => {
  const bodies: string[] = [];
  receiver = await startReceiver((_request, body, response) => {
    bodies.push(body);
    response.end("{}");
  });
  const cut = connect(Number(new URL(receiver.url).port), "127.0.0.1");
  await once(cut, "connect");
  cut.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
  const seen = await fetch(receiver.url, { method: "POST", body: "whole" });
  expect(await seen.text()).toBe("{}");
  const closed = once(cut, "close");
  receiver.close();
  await closed;
  expect(bodies).toEqual(["whole"]);
});
