// What the kits have in common: abbreviations, patterns, and values as jco has them.

export const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
export const mapMembers = (object, change) => Object.fromEntries(Object.entries(object).map(change));
export const mapValues = (object, change) => mapMembers(object, ([name, value]) => [name, change(value)]);

/// Replaces the kits' two abbreviations.
export function expand(value) {
  if (Array.isArray(value)) return value.map(expand);
  if (!isObject(value)) return value;
  if (value.$text) return value.$text[0].repeat(value.$text[1]);
  if (value.$list) return Array.from({ length: value.$list[0] }, (_, place) => expand(numbered(value.$list[1], place)));
  return mapValues(value, expand);
}
function numbered(value, place) {
  if (typeof value === 'string') return value.replaceAll('#', place);
  if (Array.isArray(value)) return value.map((one) => numbered(one, place));
  return isObject(value) ? mapValues(value, (one) => numbered(one, place)) : value;
}

export const camel = (name) => name.replace(/-./g, (part) => part[1].toUpperCase());
const kebab = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
/// An answer as the kits spell it.
export function spelled(value) {
  if (value === undefined) return null;
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : `${value}`;
  if (Array.isArray(value)) return value.map(spelled);
  if (!isObject(value)) return value;
  if ('tag' in value) return { [value.tag]: spelled(value.val) };
  return mapMembers(value, ([name, one]) => [kebab(name), spelled(one)]);
}

/// What of an answer is not as expected, with the path to it; none: it is.
export function differs(expected, found, known, path = 'answer') {
  const shown = (value) => JSON.stringify(value)?.slice(0, 200);
  const complaint = `${path}: ${shown(found)} in place of ${shown(expected)}`;
  const without = (pattern, value) => differs(pattern, value, new Map(known), path) === undefined;
  if (typeof expected === 'string' && /^\$./.test(expected)) {
    if (!known.has(expected)) known.set(expected, found);
    return known.get(expected) === found ? undefined : complaint;
  }
  if (Array.isArray(expected)) {
    if (!Array.isArray(found) || found.length !== expected.length) return complaint;
    return expected.map((one, place) => differs(one, found[place], known, `${path}[${place}]`)).find(Boolean);
  }
  if (!isObject(expected)) return expected === found ? undefined : complaint;
  if (expected.$not !== undefined) return without(expected.$not, found) ? complaint : undefined;
  if (expected['$one-of']) return expected['$one-of'].some((one) => without(one, found)) ? undefined : complaint;
  if (expected['$any-order']) return anyOrder(expected['$any-order'], found, without) ? undefined : complaint;
  if (expected.$between) {
    const [low, high] = expected.$between.map(BigInt);
    return typeof found !== 'object' && BigInt(found) >= low && BigInt(found) <= high ? undefined : complaint;
  }
  if (!isObject(found)) return complaint;
  const member = ([name, one]) => (name in found ? differs(one, found[name], known, `${path}.${name}`) : complaint);
  return Object.entries(expected).map(member).find(Boolean);
}
function anyOrder(patterns, found, holds) {
  if (!Array.isArray(found) || found.length !== patterns.length) return false;
  const left = [...found];
  return patterns.every((pattern) => {
    const place = left.findIndex((one) => holds(pattern, one));
    if (place >= 0) left.splice(place, 1);
    return place >= 0;
  });
}
