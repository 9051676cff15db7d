// Does deferred work: calls the component step by step, and gets what it needs from a model in between.

/// A task of more steps is none of this component's.
const MAX_STEPS = 1000;
/// A step's lease has to last for as long as the model takes.
const MODEL_MILLISECONDS = 60_000n;

/// There is nobody to ask: the filter does without. A model of yours has the same method; what it throws, or its promise is
/// rejected with, leaves the task for later, and everything as it was.
export const noModel = {
  /// A text for `need`, or a promise of one: its purpose, instructions, input, maxTokens.
  complete: (need) => undefined,
};

/// Of completions. Vectors are needed for recall alone, for which this host's store lacks indexes; calls, and what else is
/// asked for one day, this host does not know.
async function outcomeOf(tag, need, model) {
  try {
    const text = tag === 'completion' ? await model.complete(need) : undefined;
    if (text === undefined) return { tag: 'missing', val: { message: 'this host has nobody to ask' } };
    return { tag: 'text', val: { text } };
  } catch {
    return { tag: 'failed', val: { message: 'the model failed' } };
  }
}

const resultOf = async ({ tag, val: { id, ...need } }, model) => ({ id, outcome: await outcomeOf(tag, need, model) });

/// Does a task to its end. To give up is harmless at any point: it will be due again.
export async function workOn(first, filter, model, report) {
  const holder = crypto.randomUUID();
  let [task, results] = [first, []];
  for (let step = 0; step < MAX_STEPS; step += 1) {
    const progress = filter.advance({ task, holder, leaseMilliseconds: MODEL_MILLISECONDS, results });
    if (progress?.problem) report(progress.problem);
    if (progress?.step !== 'needs' && progress?.step !== 'again') return;
    task = progress.task;
    results = await Promise.all(progress.needs.map((need) => resultOf(need, model)));
  }
}
