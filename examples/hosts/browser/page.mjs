// A conversation that this browser remembers: the host in JavaScript, with a store in IndexedDB.

import { administer } from '../node/administration.mjs';
import { Conversations } from '../node/conversations.mjs';
import { Filter, load } from '../node/filter.mjs';
import { fetched } from './fetched.mjs';
import { IndexedDbStore } from './store.mjs';

const SESSION = 'chat';
const OPTIONS = JSON.stringify({ conversation: true });
const metadata = JSON.stringify({ session_id: SESSION });

const [form, list, question, status] = ['form', '#conversation', '#question', '#status'].map((one) => document.querySelector(one));
const report = ({ message }) => {
  status.textContent = message;
};

const store = await IndexedDbStore.open('keepline');
const filter = new Filter(await load(new URL('../node/out/', import.meta.url), fetched), store, OPTIONS, { report });
const conversations = new Conversations(filter, { report });

/// Put a model here: `messages` is what a chat API takes. This stand-in answers with what it was sent.
async function complete(messages) {
  const asked = messages.filter(({ role }) => role === 'user').map(({ content }) => content);
  return `I was sent ${messages.length} messages. You have said: ${asked.join(' / ')}`;
}

function show(role, text) {
  const line = document.createElement('li');
  line.className = role;
  line.textContent = text;
  list.append(line);
}

async function ask(text) {
  show('user', text);
  const { memory_messages: earlier = [] } = JSON.parse(conversations.question(text, metadata));
  const answer = await complete([...earlier, { role: 'user', content: text }]);
  conversations.answer(answer, metadata);
  await conversations.work();
  // An answer that is shown is kept.
  await store.save();
  show('assistant', answer);
}

function showAll() {
  list.replaceChildren();
  const page = administer(filter, 'transcripts.messages', [{ session: SESSION }, { limit: 1000 }]);
  for (const { role, content } of page?.ok?.messages ?? []) show(role, content);
}

/// One thing at a time: the form is disabled while it is done.
async function busy(work) {
  const parts = [...form.elements];
  parts.forEach((part) => (part.disabled = true));
  status.textContent = '';
  try {
    await work();
  } catch (error) {
    report({ message: `Not kept: ${error.message}` });
  }
  parts.forEach((part) => (part.disabled = false));
  question.focus();
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  const text = question.value;
  question.value = '';
  busy(() => ask(text));
});
document.querySelector('#forget').addEventListener('click', () => busy(async () => {
  administer(filter, 'sessions.delete', [SESSION]);
  conversations.open(metadata);
  await store.save();
  showAll();
}));

await busy(async () => {
  showAll();
  await store.save();
});
