// Reads a file of the server's.

export async function fetched(url) {
  const reply = await fetch(url);
  if (!reply.ok) throw new Error(`${url}: ${reply.status}`);
  return reply.arrayBuffer();
}
