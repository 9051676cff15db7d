"""Does deferred work: calls the component step by step, and gets what it needs from a model in between."""

import uuid

# A task of more steps is none of this component's.
MAX_STEPS = 1000
# A step's lease has to last for as long as the model takes.
MODEL_MILLISECONDS = 60_000


class NoModel:
    """There is nobody to ask: the filter does without. A model of yours has the same method; what it raises leaves the task
    for later, and everything as it was."""

    def complete(self, need):
        """A text for `need`: its purpose, instructions, input, max-tokens."""
        return None


def outcome_of(kind, need, model):
    """Of completions. Vectors are needed for recall alone, for which this host's store lacks indexes; calls, and what else
    is asked for one day, this host does not know."""
    try:
        text = model.complete(need) if kind == "completion" else None
    except Exception:
        return "failed", {"message": "the model failed"}
    return ("text", {"text": text}) if text is not None else ("missing", {"message": "this host has nobody to ask"})


def result_of(need, model):
    kind, need = need
    return {"id": need["id"], "outcome": outcome_of(kind, need, model)}


def work_on(task, filter, model, report):
    """Does a task to its end. To give up is harmless at any point: it will be due again."""
    holder, results = str(uuid.uuid4()), []
    for _ in range(MAX_STEPS):
        progress = filter.advance(task, holder, MODEL_MILLISECONDS, results)
        if progress and progress["problem"]:
            report(progress["problem"]["code"], progress["problem"]["message"])
        if progress is None or progress["step"] not in ("needs", "again"):
            return
        task, results = progress["task"], [result_of(need, model) for need in progress["needs"]]
