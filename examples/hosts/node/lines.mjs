// The lines of a pipe: {"lane": "questions" | "answers", "text", "metadata"}, each passed with its memory.
//
// {"lane": "tools", "tool": {"call_id", "name", "arguments", "output", "error"}} tells what a tool did. Conversations may be
// interleaved: each entry belongs to the session that its metadata name, or to that of the last question. {"lane": "open"}
// begins a new conversation, in the session that its metadata name, or in all. All that the filter does not change passes
// byte for byte, and so does what is no such line.

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s"{}[\]:,]+/g;

/// Where the value of a member stands in a line of valid JSON; of duplicates, the last one's. Metadata goes through as
/// text: to parse it and write it again would round large numbers.
function place(line, name) {
  let [depth, end, last, key, start, found] = [0, 0, ''];
  for (const { 0: token, index } of line.matchAll(TOKENS)) {
    if (depth === 1 && (token === ',' || token === '}')) {
      if (key === name) found = [start, end];
      key = undefined;
    } else if (depth === 1 && token === ':') {
      [key, start] = [JSON.parse(last), undefined];
    } else if (key !== undefined) {
      start ??= index;
    }
    if (token === '{' || token === '[') depth += 1;
    if (token === '}' || token === ']') depth -= 1;
    [last, end] = [token, index + token.length];
  }
  return found;
}

/// Undefined: no entry.
function parse(line) {
  try {
    const entry = JSON.parse(line);
    return typeof entry.lane === 'string' ? entry : undefined;
  } catch {
    return undefined;
  }
}

/// What a line says of a tool, as the filter takes it. Undefined: it says nothing of use. Values stay as they are spelled.
function activity(text) {
  const tool = JSON.parse(text);
  if (typeof tool?.call_id !== 'string') return undefined;
  const raw = (name) => text.slice(...place(text, name));
  const spelled = (name) => (typeof tool[name] === 'string' ? tool[name] : raw(name));
  return {
    callId: tool.call_id,
    name: tool.name ?? '',
    arguments: 'arguments' in tool ? raw('arguments') : undefined,
    output: 'output' in tool ? spelled('output') : undefined,
    error: tool.error === undefined || tool.error === null ? undefined : spelled('error'),
  };
}

/// The line to write for this one.
export function passed(conversations, line) {
  const entry = parse(line);
  const { lane, text = '' } = entry ?? {};
  const span = entry && place(line, 'metadata');
  const metadata = span ? line.slice(...span) : '{}';
  const tool = lane === 'tools' && 'tool' in entry ? activity(line.slice(...place(line, 'tool'))) : undefined;
  const isText = typeof text === 'string';
  if (lane === 'open') {
    conversations.open(metadata);
  } else if (tool) {
    conversations.tool(tool, metadata);
  } else if (lane === 'answers' && isText) {
    conversations.answer(text, metadata);
  } else if (lane === 'questions' && isText) {
    const changed = conversations.question(text, metadata);
    if (changed !== metadata) {
      const [start, end] = span ?? Array(2).fill(line.lastIndexOf('}'));
      return line.slice(0, start) + (span ? '' : ',"metadata":') + changed + line.slice(end);
    }
  } else {
    conversations.unreadable();
  }
  return line;
}
