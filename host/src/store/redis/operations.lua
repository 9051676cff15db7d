-- What each operation and expectation does within transact.lua: what it probes, and what it applies.
--
-- `--- NAME: PARAMETERS` begins one, in the order in which codec.rs writes them. A parameter is
--   key           one of the bucket's keys: `key` is its name and `slot` its place in `members`
--   log           one of the bucket's logs: `log` is a table, see step 2
--   limit NAME    a small number that the same kind of transaction has again and again: part of its shape
--   number NAME   any other number
--   text NAME     a text
--   texts         any number of texts, last: `count` of them in ARGV, from index `from` on
-- `--@ NAME` stands for the fragment of that name. Probes return what keeps the transaction from being
-- applied; an operation that is applied adds to the reply and can't fail any more.

--- expect-room: limit most, limit set_count
--- probe
if not repeated then
  -- The keys that are set have the first slots.
  local created = 0
  for slot = 1, set_count do
    if members[slot] ~= 1 then created = created + 1 end
  end
  if created > 0 and (exists and call('SCARD', keys) or 0) + created > most then
    return { UNMET, now, 0, incarnation }
  end
end

--- expect-oldest: log, texts
--- probe
if not repeated and count > 0 then
  if count > log.length then return { UNMET, now, 0, incarnation } end
  local records = call('LRANGE', log.list, 0, count - 1)
  for j = 1, count do
    if records[j] ~= ARGV[from + j - 1] then return { UNMET, now, 0, incarnation } end
  end
end

--- expect-keys: texts
--- probe
if not repeated then
  local missing, expected = 0, {}
  for j = from, from + count - 1 do expected[ARGV[j]] = true end
  for _ in pairs(expected) do missing = missing + 1 end
  for _, name in ipairs(held or {}) do
    if byte(name) ~= UNDERSCORE or not string.find(name, '^__.*__$') then
      if not expected[name] then return { UNMET, now, 0, incarnation } end
      missing = missing - 1
    end
  end
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
--@ names
local bytes, values, fits = 0, {}, #names <= max_keys
-- In steps: what is over the limit is not read to its end. A value that was evicted, or is no string, is
-- false.
for first = 1, fits and #names or 0, 64 do
  local addresses, before = {}, first - 1
  for j = 1, math.min(64, #names - before) do addresses[j] = base .. names[before + j] end
  local read = call('MGET', unpack(addresses))
  for j = 1, #read do
    local value = read[j]
    values[before + j] = value
    if value then bytes = bytes + #names[before + j] + #value end
  end
  fits = bytes <= max_bytes
  if not fits then break end
end
if fits then
  said = said + 1
  reply[said] = #names
  for j = 1, #names do reply[said + j] = names[j] end
  said = said + #names
  for j = 1, #names do reply[said + j] = values[j] end
  said = said + #names
else
  reply[said + 1], reply[said + 2], reply[said + 3] = -1, bytes, #names
  said = said + 3
end

--- list-keys: number max_names
--- apply
--@ names
--@ tell names

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
  call('DEL', base .. key)
  call('SREM', keys, key)
  members[slot], held = 0, nil
end
local names, max_names = { was_there and key or nil }, 1
--@ tell names

--- remove-all: number max_names
--- apply
--@ names
if not writes then names = {}
else
  for first = 1, #names, 4000 do
    local addresses, last = {}, math.min(first + 3999, #names)
    for j = first, last do addresses[j - first + 1] = base .. names[j] end
    call('DEL', unpack(addresses))
    call('SREM', keys, unpack(names, first, last))
  end
  members, held = {}, nil
end
--@ tell names

--- append: log, texts
--- apply
if writes and count > 0 then
  if not log.first then
    call('DEL', log.list)
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
-- `names` of all keys.
local names, reserved = held or call('SMEMBERS', keys), false
for j = 1, #names do
  -- What carries a bookkeeping name is no key of ours.
  if byte(names[j]) == UNDERSCORE and string.find(names[j], '^__.*__$') then reserved = true end
end
if reserved then
  local all = names
  names = {}
  for j = 1, #all do
    if not string.find(all[j], '^__.*__$') then names[#names + 1] = all[j] end
  end
end

--- fragment tell names
-- How many there are, how many of them are told, and those.
table.sort(names)
local told = math.min(#names, max_names)
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
local begins, ends, found, bytes, chunk = low, high, 0, 0, nil
reply[said + 1], reply[said + 2], reply[said + 3] = 0, log.length, 0
while low <= high and bytes <= max_bytes do
  -- In steps: what is over the limit is not read to its end.
  if backwards == 1 then chunk = call('LRANGE', log.list, math.max(low, high - 255), high)
  else chunk = call('LRANGE', log.list, low, math.min(high, low + 255)) end
  local size = #chunk
  for j = 1, size do
    local record = chunk[backwards == 1 and size + 1 - j or j]
    bytes = bytes + #record
    if bytes > max_bytes and found > 0 then break end
    found = found + 1
    reply[said + 3 + found] = record
  end
  if backwards == 1 then high = high - 256 else low = low + 256 end
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
