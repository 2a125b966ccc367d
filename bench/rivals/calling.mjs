// What every job does: one POST to its receiver, with the headers by which the sink judges it.

import { Agent, request } from "undici";

/** A function that makes the call of a job; at most so many are under way at once. */
export function caller(connections) {
  // One request at a time on each connection, as Duetime does.
  const dispatcher = new Agent({ connections, pipelining: 1, keepAliveTimeout: 60_000 });
  return async ({ id, attempt, due, url, payload }) => {
    const { statusCode, body } = await request(url, {
      dispatcher,
      method: "POST",
      headers: {
        "content-type": "application/json",
        "webhook-id": id,
        "x-timer-attempt": String(attempt),
        "x-timer-due": due.toISOString(),
      },
      body: JSON.stringify(payload),
    });
    await body.dump(); // the connection is free again
    if (statusCode !== 200) throw new Error(`${url} answered ${statusCode}`);
  };
}
