// What every job does: one POST to its receiver, with the headers by which the sink judges it.

import { Agent } from "undici";

/** A function that makes the call of a job; at most so many are under way at once. */
export function caller(connections) {
  // One request at a time on each connection, as Duetime does.
  const agent = new Agent({ connections, pipelining: 1, keepAliveTimeout: 60_000 });
  return ({ id, attempt, due, url, payload }) => {
    const { origin, pathname } = new URL(url);
    const headers = {
      "content-type": "application/json",
      "webhook-id": id,
      "x-timer-attempt": String(attempt),
      "x-timer-due": due.toISOString(),
    };
    const body = JSON.stringify(payload);
    // Its barest call: twice as fast as `request`, and four times as fast as `node:http`.
    return new Promise((resolve, reject) => {
      agent.dispatch(
        { origin, path: pathname, method: "POST", headers, body },
        new Answer(resolve, reject),
      );
    });
  };
}

/** Waits for the end of an answer, which must be a 200. */
class Answer {
  #resolve;
  #reject;
  #status = 0;

  constructor(resolve, reject) {
    this.#resolve = resolve;
    this.#reject = reject;
  }

  onRequestStart() {}

  onResponseStart(_controller, status) {
    this.#status = status;
  }

  onResponseData() {}

  onResponseEnd() {
    if (this.#status === 200) this.#resolve();
    else this.#reject(new Error(`it was answered with ${this.#status}`));
  }

  onResponseError(_controller, error) {
    this.#reject(error);
  }
}
