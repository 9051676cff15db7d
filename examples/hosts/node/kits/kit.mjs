// What the kits have in common: abbreviations, patterns, and values as jco has them. conformance/README.md describes the
// format.

export const isName = (value) => typeof value === 'string' && /^\$./.test(value);
export const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
export const mapMembers = (object, change) => Object.fromEntries(Object.entries(object).map(change));
export const mapValues = (object, change) => mapMembers(object, ([name, value]) => [name, change(value)]);

/// Replaces the kits' abbreviations. `limits`: those of the store, by name.
export function expand(value, limits) {
  if (Array.isArray(value)) return value.map((one) => expand(one, limits));
  if (!isObject(value)) return value;
  if (value.$limit) return limits[value.$limit[0]] + value.$limit[1];
  if (value.$text) return value.$text[0].repeat(expand(value.$text[1], limits));
  if (value.$list) {
    const [length, template, sign = '#'] = expand(value.$list, limits);
    return Array.from({ length }, (_, place) => numbered(template, sign, place));
  }
  return mapValues(value, (one) => expand(one, limits));
}
function numbered(value, sign, place) {
  if (typeof value === 'string') return value.replaceAll(sign, place);
  if (Array.isArray(value)) return value.map((one) => numbered(one, sign, place));
  return isObject(value) ? mapValues(value, (one) => numbered(one, sign, place)) : value;
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

/// Whether two answers, as the kits spell them, are the same.
function isSame(one, other) {
  if (one === other || one === null || other === null || typeof one !== 'object' || typeof other !== 'object') {
    return one === other;
  }
  const [names, others] = [one, other].map((value) => Object.keys(value));
  const isAlike = Array.isArray(one) === Array.isArray(other) && names.length === others.length;
  return isAlike && names.every((name) => Object.hasOwn(other, name) && isSame(one[name], other[name]));
}

/// What of an answer is not as expected, with the path to it; none: it is.
export function differs(expected, found, known, path = 'answer') {
  const shown = (value) => JSON.stringify(value)?.slice(0, 200);
  const complaint = `${path}: ${shown(found)} in place of ${shown(expected)}`;
  const without = (pattern, value) => differs(pattern, value, new Map(known), path) === undefined;
  if (isName(expected)) {
    if (!known.has(expected)) known.set(expected, found);
    return isSame(known.get(expected), found) ? undefined : complaint;
  }
  if (Array.isArray(expected)) {
    if (!Array.isArray(found) || found.length !== expected.length) return complaint;
    return expected.map((one, place) => differs(one, found[place], known, `${path}[${place}]`)).find(Boolean);
  }
  if (!isObject(expected)) return expected === found ? undefined : complaint;
  if (expected.$not !== undefined) return without(expected.$not, found) ? complaint : undefined;
  if (expected['$one-of']) return expected['$one-of'].some((one) => without(one, found)) ? undefined : complaint;
  if (expected['$any-order']) return anyOrder(expected['$any-order'], found, without) ? undefined : complaint;
  if (expected.$each) {
    return Array.isArray(found) && found.every((one) => without(expected.$each, one)) ? undefined : complaint;
  }
  if (expected.$distinct) {
    const distinct = new Set(Array.isArray(found) ? found.map((one) => JSON.stringify(one)) : []);
    return distinct.size === expected.$distinct && found.length === distinct.size ? undefined : complaint;
  }
  if (expected.$between) {
    const [low, high] = expected.$between;
    return typeof found === 'number' && found >= low && found <= high ? undefined : complaint;
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
