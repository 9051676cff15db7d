-- What each operation and expectation does within transact.lua: what it probes, and what it applies.
--
-- `--- NAME: PARAMETERS` begins one, in the order in which codec.rs writes them. A parameter is
--   key           one of the bucket's keys: `key` is its name and `slot` its place in `members`
--   log           one of the bucket's logs: `log` is a table, see step 2
--   limit NAME    a small number that the same kind of transaction has again and again: part of its shape
--   number NAME   any other number
--   text NAME     a text
--   texts         any number of texts, last: `count` of them in ARGV, from index `from` on
-- `--@ NAME` stands for the fragment of that name, here or in shared.lua. Probes return what keeps the transaction
-- from being applied; an operation that is applied adds to the reply and can't fail any more.

--- expect-room: limit most, limit set_count
--- probe
if not repeated then
  -- The keys that are set have the first slots.
  local created = 0
  for slot = 1, set_count do
    if members[slot] ~= 1 then created = created + 1 end
  end
  local total = created > 0 and exists and call('SCARD', keys) or 0
  if created > 0 and total + created > most and total - STRANGERS + created <= most then
    --@ names
    total = #names
  end
  if created > 0 and total + created > most then return { UNMET, now, 0, incarnation } end
end

--- expect-oldest: log, texts
--- probe
if not repeated and count > 0 then
  if count > log.length then return { UNMET, now, 0, incarnation } end
  -- In steps: what is found is as long as what was expected, but for the last step's.
  local at, step = 0, FIRST_STEP
  while at < count do
    local records = call('LRANGE', log.list, at, math.min(at + step, count) - 1)
    for j = 1, #records do
      if records[j] ~= ARGV[from + at + j - 1] then return { UNMET, now, 0, incarnation } end
    end
    at, step = at + step, math.min(2 * step, LAST_STEP)
  end
end

--- expect-keys: texts
--- probe
if not repeated then
  local missing, expected = 0, {}
  for j = from, from + count - 1 do expected[ARGV[j]] = true end
  for _ in pairs(expected) do missing = missing + 1 end
  if exists and (held or call('SCARD', keys) <= missing + MOST_NAMES) then
    --@ names
    for j = 1, #names do
      if not expected[names[j]] then return { UNMET, now, 0, incarnation } end
    end
    missing = missing - #names
  elseif exists then missing = -1 end
  if missing ~= 0 then return { UNMET, now, 0, incarnation } end
end

--- get: key, limit max_bytes
--- probe
if members[slot] == 1 and type(try('STRLEN', base .. key)) == 'table' then return { WRONG_TYPE, now, key } end
--- apply
said = said + 1
reply[said] = false
if members[slot] == 1 then
  local bytes = call('STRLEN', base .. key)
  if bytes > max_bytes then reply[said] = bytes else reply[said] = call('GET', base .. key) end
end

--- get-all: limit max_bytes, limit max_keys
--- apply
local names, total, bytes, values, fits = held, nil, 0, {}, false
if not names then
  total = call('SCARD', keys)
  if total <= max_keys + STRANGERS then names = call('SMEMBERS', keys) end
end
-- Strangers among one or two names are looked for only if those do not fit: nearly always they do.
local strangers_left = names and #names <= 2
while names do
  if not strangers_left then
    --@ only keys
  end
  total, bytes, values = #names, 0, {}
  fits = total <= max_keys
  if fits and total > 0 then
    -- One or two are read at once. Of more, the lengths come first: what is over the limit is not read. A value
    -- that was evicted, or is no string, is false.
    values = total == 1 and call('MGET', base .. names[1]) or call('MGET', base .. names[1], base .. names[2])
    for j = 1, #values do
      if values[j] then bytes = bytes + #names[j] + #values[j] end
    end
    for j = 3, total do
      if bytes > max_bytes then break end
      local length = try('STRLEN', base .. names[j])
      if type(length) == 'number' then bytes = bytes + #names[j] + length end
    end
    fits = bytes <= max_bytes
    for first = 3, fits and total or 0, 4000 do
      local addresses, before = {}, first - 1
      for j = 1, math.min(4000, total - before) do addresses[j] = base .. names[before + j] end
      local read = call('MGET', unpack(addresses))
      for j = 1, #read do values[before + j] = read[j] end
    end
  end
  if fits or not strangers_left then break end
  strangers_left = false
end
if fits then
  said = said + 1
  reply[said] = total
  for j = 1, total do reply[said + j] = names[j] end
  said = said + total
  for j = 1, total do reply[said + j] = values[j] end
  said = said + total
else
  reply[said + 1], reply[said + 2], reply[said + 3] = -1, bytes, total
  said = said + 3
end

--- list-keys: number max_names
--- apply
local total = held and 0 or call('SCARD', keys)
if total > MOST_NAMES then
  reply[said + 1], reply[said + 2] = total, 0
  said = said + 2
else
  --@ names
  --@ tell names
end

--- put: key, text value
--- probe
if exists and type(try('STRLEN', base .. key)) == 'table' then return { WRONG_TYPE, now, key } end
--- apply
said = said + 1
reply[said] = members[slot] == 1 and 0 or 1
if writes then
  --@ set
end

--- increment: key, text amount
--- probe
if exists and not repeated then
  local value = try('GET', base .. key)
  if type(value) == 'table' then return { WRONG_TYPE, now, key } end
  if not value then members[slot] = 0
  elseif members[slot] == 1 then
    if value ~= '0' and not string.find(value, '^%-?[1-9]%d*$') then return { NOT_A_COUNTER, now, key } end
    if #value > 15 or #amount > 15 then
      local negative = byte(value) == 45
      local digits = negative and string.sub(value, 2) or value
      if #digits > 19 or (#digits == 19 and digits > (negative and '9223372036854775808' or '9223372036854775807')) then
        return { NOT_A_COUNTER, now, key }
      end
      -- Lua's numbers are exact up to 2^53 only, so large digits are added in two halves.
      if negative == (byte(amount) == 45) then
        local added = negative and string.sub(amount, 2) or amount
        digits, added = string.rep('0', 19 - #digits) .. digits, string.rep('0', 19 - #added) .. added
        local low = string.sub(digits, 11) + string.sub(added, 11)
        local high = string.sub(digits, 1, 10) + string.sub(added, 1, 10) + math.floor(low / 1e9)
        if high > 9223372036 or (high == 9223372036 and low % 1e9 > (negative and 854775808 or 854775807)) then
          return { COUNTER_OVERFLOW, now, key }
        end
      end
    end
  end
end
--- apply
said = said + 1
if not writes then
  local value = members[slot] == 1 and try('GET', base .. key)
  reply[said] = type(value) == 'string' and value or 0
elseif members[slot] == 1 then
  local sum = call('INCRBY', base .. key, amount)
  if sum >= 9007199254740992 or sum <= -9007199254740992 then sum = call('GET', base .. key) end
  reply[said] = sum
else
  local value = amount
  reply[said] = value
  --@ set
end

--- remove: key
--- apply
local was_there = members[slot] == 1 and writes
if was_there then
  call('UNLINK', base .. key)
  call('SREM', keys, key)
  members[slot], held = 0, nil
end
reply[said + 1], reply[said + 2] = was_there and 1 or 0, was_there and 1 or 0
said = said + 2
if was_there then
  said = said + 1
  reply[said] = key
end

--- remove-all: number max_names
--- apply
local names = {}
if writes then
  local all, addresses = held or call('SMEMBERS', keys), {}
  for j = 1, #all do
    local name = all[j]
    --@ if its own
      addresses[#addresses + 1] = base .. name
    end
  end
  for first = 1, #addresses, 4000 do
    call('UNLINK', unpack(addresses, first, math.min(first + 3999, #addresses)))
  end
  call('UNLINK', keys)
  names = all
  --@ only keys
  members, held = {}, {}
end
if #names > MOST_NAMES then max_names = 0 end
--@ tell names

--- append: log, texts
--- apply
if writes and count > 0 then
  if not log.first then
    call('UNLINK', log.list)
    call('HSET', meta, 'log:' .. string.sub(log.list, #base + 3, -3), 0)
    log.first = 0
  end
  local was_empty = log.length == 0
  for first = from, from + count - 1, 4000 do
    log.length = call('RPUSH', log.list, unpack(ARGV, first, math.min(first + 3999, from + count - 1)))
  end
  if was_empty and expires > 0 then call('PEXPIREAT', log.list, expires) end
end
--@ tell extent

--- read: log, limit backwards, number skip, number max_records, number max_bytes
--- apply
local low, high = skip, math.min(log.length, skip + max_records) - 1
if backwards == 1 then
  high = log.length - skip - 1
  low = math.max(0, high - max_records + 1)
end
--@ range

--- overflow: log, limit most, limit keep, limit max_records, limit max_bytes
--- apply
if log.length <= most then
  --@ tell extent
  said = said + 1
  reply[said] = 0
else
  local low, high, backwards = 0, math.min(log.length - keep, max_records) - 1, 0
  --@ range
end

--- replace-oldest: log, number most, texts
--- probe
if not repeated and count > log.length then return { TOO_MANY_RECORDS, now, string.sub(log.list, #base + 3, -3) } end
--- apply
local replaced = math.min(most, log.length)
if writes and replaced > 0 then
  -- The new ones in the places of the last of the old: the list is never empty in between.
  for j = 1, count do call('LSET', log.list, replaced - count + j - 1, ARGV[from + j - 1]) end
  if replaced > count then
    call('LTRIM', log.list, replaced - count, -1)
    log.first, log.length = log.first + replaced - count, log.length - replaced + count
    call('HSET', meta, 'log:' .. string.sub(log.list, #base + 3, -3), log.first)
  end
end
--@ tell extent

--- rewrite: log, number position, text record
--- probe
local index = position - (log.first or 0)
if not repeated and (index < 0 or index >= log.length) then
  return { INVALID_POSITION, now, string.sub(log.list, #base + 3, -3) }
end
--- apply
if writes then call('LSET', log.list, position - log.first, record) end
--@ tell extent

--- count: log
--- apply
--@ tell extent

-- Fragments. ---------------------------------------------------------------------------------------

--- fragment set
-- `value` becomes that of `key`.
if expires > 0 then call('SET', base .. key, value, 'PXAT', expires) else call('SET', base .. key, value) end
if members[slot] ~= 1 then
  call('SADD', keys, key)
  if expires > 0 then call('PEXPIREAT', keys, expires) end
  members[slot], held = 1, nil
end

--- fragment names
-- The `names` of all keys.
local names = held or call('SMEMBERS', keys)
--@ only keys

--- fragment tell names
-- How many there are, how many of them are told, and those. The client sorts them.
local told = math.min(#names, max_names)
if told < #names then table.sort(names) end
reply[said + 1], reply[said + 2] = #names, told
said = said + 2
for j = 1, told do reply[said + j] = names[j] end
said = said + told

--- fragment tell extent
reply[said + 1], reply[said + 2] = log.first or 0, log.length
said = said + 2

--- fragment range
-- The records from index `low` to `high`, from the newer end on if `backwards`: the position of the first, the
-- log's length, how many they are, and those, oldest first.
local begins, ends, found, bytes, step, chunk = low, high, 0, 0, FIRST_STEP, nil
reply[said + 1], reply[said + 2], reply[said + 3] = 0, log.length, 0
while low <= high and bytes <= max_bytes do
  -- In steps, short ones first: what is over the limit is not read to its end.
  if backwards == 1 then
    chunk = call('LRANGE', log.list, math.max(low, high - step + 1), high)
    high = high - step
  else
    chunk = call('LRANGE', log.list, low, math.min(high, low + step - 1))
    low = low + step
  end
  step = math.min(2 * step, LAST_STEP)
  local size = #chunk
  for j = 1, size do
    local record = chunk[backwards == 1 and size + 1 - j or j]
    bytes = bytes + #record
    if bytes > max_bytes and found > 0 then break end
    found = found + 1
    reply[said + 3 + found] = record
  end
end
if backwards == 1 then
  begins = ends + 1 - found
  for j = 1, found / 2 do
    local a, b = said + 3 + j, said + 4 + found - j
    reply[a], reply[b] = reply[b], reply[a]
  end
end
reply[said + 1], reply[said + 3] = (log.first or 0) + math.max(0, math.min(begins, log.length)), found
said = said + 3 + found
