// What a producer is asked to do, the same for every rival. Each verb ends with one line of JSON.
//
// A rival says how one job is added, how many are, and how many it has stored. A job is due at a
// Date, and its data are a URL and a payload, as those of Duetime's timers are.

const DAY = 86_400_000; // nothing comes due while it is measured
const WARMING = 500;

const verbs = {
  /** So many, each by itself, and so many of these at once: how long that took. */
  async singly(rival, count, atOnce) {
    const due = new Date(Date.now() + DAY);
    await together(WARMING, atOnce, (number) => rival.add(job(due, number)));
    const started = performance.now();
    await together(count, atOnce, (number) => rival.add(job(due, number)));
    return { seconds: since(started), made: count + WARMING };
  },

  /** So many in batches, and so many batches at once, due after so many ms (0: a day). */
  async batched(rival, count, size, atOnce, lead) {
    const due = new Date(Date.now() + (lead || DAY));
    const jobs = Array.from({ length: count }, (_, number) => job(due, number));
    const started = performance.now();
    await together(Math.ceil(count / size), atOnce, (batch) =>
      rival.addMany(jobs.slice(batch * size, (batch + 1) * size)),
    );
    return { seconds: since(started), made: count, due_ms: due.getTime(), in_time: Date.now() < due };
  },

  /** So many a second, each so long ahead, whether or not those before it were answered. */
  async paced(rival, count, perSecond, ahead) {
    const start = Date.now() + 500;
    const started = performance.now();
    const under_way = [];
    for (let number = 0; number < count; number += 1) {
      const wait = started + (number * 1000) / perSecond - performance.now();
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      const due = new Date(start + ahead + Math.floor((number * 1000) / perSecond));
      under_way.push(rival.add(job(due, number)));
    }
    await Promise.all(under_way);
    return { seconds: since(started), made: count };
  },

  /** Nothing: only what is stored is told. */
  async none() {
    return { seconds: 0, made: 0 };
  },
};

/** Do what the command line says. */
export async function produce(rival) {
  const [verb, ...numbers] = process.argv.slice(2);
  const done = await verbs[verb](rival, ...numbers.map(Number));
  console.log(JSON.stringify({ ...done, stored: await rival.stored() }));
  await rival.close();
}

function job(due, number) {
  const order = `A-${String(number).padStart(8, "0")}`;
  const url = `http://127.0.0.1:${process.env.SINK_PORT}/hook`;
  return { due, data: { url, payload: { order, customer: 4711, action: "expire" } } };
}

async function together(count, atOnce, act) {
  let next = 0;
  const one = async () => {
    while (next < count) await act(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}

function since(started) {
  return (performance.now() - started) / 1000;
}
