// Adds jobs to graphile-worker, by its own client.

import { Logger, makeWorkerUtils } from "graphile-worker";

import { produce } from "../producing.mjs";

const schema = process.env.RIVAL_SCHEMA;
const utils = await makeWorkerUtils({
  schema,
  connectionString: process.env.RIVAL_URL,
  maxPoolSize: 64, // as many as add at once
  logger: new Logger(() => () => {}),
});
await utils.migrate();

await produce({
  add: ({ due, data }) => utils.addJob("call", data, { runAt: due }),
  addMany: (jobs) =>
    utils.addJobs(
      jobs.map(({ due, data }) => ({ identifier: "call", payload: data, runAt: due })),
    ),
  stored: () =>
    utils.withPgClient(async (client) => {
      const { rows } = await client.query(`SELECT count(*)::int AS stored FROM ${schema}.jobs`);
      return rows[0].stored;
    }),
  close: () => utils.release(),
});
