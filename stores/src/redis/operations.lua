-- What each operation and expectation does within transact.lua: what it probes, and what it applies. Those of maps
-- other than the values are in maps.lua.
--
-- `--- NAME: PARAMETERS` begins one, in the order in which encode.rs writes them. A parameter is
--   key           one of the keys of values: `key` is its name and `slot` its place in `members`
--   log           one of the bucket's logs: `log` is a table, see step 2; likewise `map` and `lease`
--   limit NAME    a small number that the same kind of transaction has again and again: part of its shape
--   number NAME   any other number
--   text NAME     a text
--   keys          any number of keys, last: their `slots`
--   texts         any number of texts, last: `count` of them in ARGV, from index `from` on
-- `--@ NAME` stands for the fragment of that name, here or in shared.lua. Probes return what keeps the transaction
-- from being applied; an operation that is applied adds to the reply and can't fail any more.

--- expect-entry: limit index, key, limit state, text text
--- probe
if not repeated then
  local there, same = members[slot] == 1, false
  if there then
    local length = try('STRLEN', base .. key)
    if type(length) == 'table' then return { WRONG_TYPE, now, key } end
    there = length > 0 or call('EXISTS', base .. key) == 1 -- not if it was evicted
    same = there and state >= 2 and length == #text and call('GET', base .. key) == text
  end
  --@ expected entry
end

--- expect-log: limit index, log, number first, number next
--- probe
if not repeated then
  --@ is a log
  local begins = log.first or 0
  if (first >= 0 and first ~= begins) or (next >= 0 and next ~= begins + log.length) then
    return { UNMET, now, 0, incarnation, index }
  end
end

--- expect-room: limit index, limit most, limit set_count
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
  if created > 0 and total + created > most then return { UNMET, now, 0, incarnation, index } end
end

--- replace:
--- probe
-- From here on, the bucket is the new one.
if not repeated then
  exists, creates, members, held = false, true, {}, {}
  for j = 1, log_count do
    local log = logs[j]
    log.first, log.named, log.length, log.is_wrong = log.field == 'log:history' and 0 or nil, false, 0, nil
  end
  for j = 1, map_count do
    local map = maps[j]
    map.known, map.length, map.is_wrong = false, 0, nil
  end
  for j = 1, lease_count do leases[j].text = false end
end

--- get: limit max_bytes, keys
--- apply
local lengths, bytes, found = {}, 0, 0
for j = 1, #slots do
  local length = members[slots[j]] == 1 and try('STRLEN', base .. ARGV[keys_at + slots[j]])
  if length then found = found + 1 end
  if type(length) == 'number' then bytes = bytes + length end
  lengths[j] = length
end
said = said + 1
if bytes > max_bytes or found > MOST_RECORDS then
  reply[said], reply[said + 1], reply[said + 2] = -1, bytes, found
  said = said + 2
else
  reply[said] = 0
  for j = 1, #slots do
    said = said + 1
    reply[said] = lengths[j] and (type(lengths[j]) == 'table' or call('GET', base .. ARGV[keys_at + slots[j]]))
    --@ unreadable
  end
end

--- get-all: limit max_entries, limit max_bytes
--- apply
local names, total, bytes, values, fits = held, nil, 0, {}, false
if not names then
  total = call('SCARD', keys)
  if total <= max_entries + STRANGERS then names = call('SMEMBERS', keys) end
end
-- Strangers among one or two names are looked for only if those do not fit: nearly always they do.
local strangers_left = names and #names <= 2
while names do
  if not strangers_left then
    --@ only keys
  end
  total, bytes, values = #names, 0, {}
  fits = total <= max_entries
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
  for j = 1, total do
    said = said + 1
    reply[said] = values[j] or type(try('STRLEN', base .. names[j])) == 'table'
    --@ unreadable
  end
else
  reply[said + 1], reply[said + 2], reply[said + 3] = -1, bytes, total
  said = said + 3
end

--- page: text position, text expected, limit most, number max_bytes, limit keys_only
--- apply
--@ position
local names
if position == '0' and (held and #held or call('SCARD', keys)) <= most then
  names = held or call('SMEMBERS', keys)
else
  local page = call('SSCAN', keys, position, 'COUNT', math.min(most, MOST_SCANNED))
  position, names = page[1], page[2]
end
--@ only keys
--@ begin page
for j = 1, #names do
  local name, length = names[j], keys_only == 0 and try('STRLEN', base .. names[j]) or 0
  local text = true -- what can't be returned
  if type(length) == 'number' and bytes + #name + length <= max_bytes then
    text = keys_only == 1 and '' or call('GET', base .. name)
    if text then bytes = bytes + #name + length end
  end
  --@ tell entry
end

--- put: key, text value
--- probe
if exists and type(try('STRLEN', base .. key)) == 'table' then return { WRONG_TYPE, now, key } end
--- apply
said = said + 1
reply[said] = writes and members[slot] ~= 1 and 1 or 0
if writes then
  --@ set
end

--- put-anew: key, text value
--- probe
-- After `clear`, which removes what is the bucket's own, whatever its type.
if exists and members[slot] ~= 1 and type(try('STRLEN', base .. key)) == 'table' then
  return { WRONG_TYPE, now, key }
end
--- apply
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
    --@ can be added
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
said = said + 1
reply[said] = 0
if writes and members[slot] == 1 then
  reply[said] = call('UNLINK', base .. key)
  call('SREM', keys, key)
  members[slot], held = 0, nil
end

--- clear:
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
said = said + 1
reply[said] = #names

--- append: log, texts
--- probe
--@ is a log
--@ log may come
--- apply
--@ append
--@ tell extent

--- reset-log: log, texts
--- probe
--@ is a log
--@ log may come
--- apply
if writes and log.length > 0 then
  call('UNLINK', log.list)
  log.first, log.length = log.first + log.length, 0
  call('HSET', meta, log.field, log.first)
end
--@ append
--@ tell extent

--- read: log, limit backwards, number max_records, number max_bytes
--- probe
--@ is a log
--- apply
local low, high = 0, math.min(log.length, max_records) - 1
if backwards == 1 then
  high = log.length - 1
  low = math.max(0, high - max_records + 1)
end
--@ range

--- overflow: log, limit most, limit keep, limit max_records, limit max_bytes
--- probe
--@ is a log
--- apply
local low, high, backwards = 0, -1, 0
if log.length > most then high = math.min(log.length - keep, max_records) - 1 end
--@ range

--- read-at: log, number max_bytes, texts
--- probe
--@ is a log
--- apply
-- Of each span a position and a count.
reply[said + 1], reply[said + 2], reply[said + 3] = log.first or 0, log.length, 0
local spans_at, bytes, left, step = said + 3, 0, MOST_RECORDS, FIRST_STEP
said = spans_at
for j = from, from + count - 1, 2 do
  local low = ARGV[j] - (log.first or 0)
  local high = math.min(low + ARGV[j + 1], log.length) - 1
  low = math.max(low, 0)
  if low <= high and left > 0 then
    local span_at, found = said + 2, 0
    reply[said + 1], reply[span_at] = log.first + low, 0
    while low <= high and left > 0 do
      local chunk = call('LRANGE', log.list, low, math.min(high, low + math.min(step, left) - 1))
      for k = 1, #chunk do
        bytes = bytes + #chunk[k]
        if bytes > max_bytes and left < MOST_RECORDS then
          left = 0
          break
        end
        found, left = found + 1, left - 1
        reply[span_at + found] = chunk[k]
      end
      low, step = low + #chunk, math.min(2 * step, LAST_STEP)
      if #chunk == 0 then break end
    end
    if found > 0 then
      reply[span_at] = found
      reply[spans_at] = reply[spans_at] + 1
      said = span_at + found
    else reply[said + 1], reply[span_at] = nil, nil end
  end
end

--- replace-oldest: log, number most, texts
--- probe
--@ is a log
if not repeated and count > log.length then return { TOO_MANY_RECORDS, now, sub(log.field, 5) } end
--- apply
local replaced = math.min(most, log.length)
if writes and replaced > 0 then
  -- The new ones in the places of the last of the old: the list is never empty in between.
  for j = 1, count do call('LSET', log.list, replaced - count + j - 1, ARGV[from + j - 1]) end
  if replaced > count then
    call('LTRIM', log.list, replaced - count, -1)
    log.first, log.length = log.first + replaced - count, log.length - replaced + count
    call('HSET', meta, log.field, log.first)
  end
end
--@ tell extent

--- rewrite: log, texts
--- probe
--@ is a log
-- Of each record its position and its text.
for j = from, repeated and 0 or from + count - 1, 2 do
  local index = ARGV[j] - (log.first or 0)
  if index < 0 or index >= log.length then return { INVALID_POSITION, now, sub(log.field, 5) } end
end
--- apply
for j = from, writes and from + count - 1 or 0, 2 do call('LSET', log.list, ARGV[j] - log.first, ARGV[j + 1]) end
--@ tell extent

--- lease: lease, text holder, number milliseconds
--- probe
--@ owner
if not repeated and milliseconds > 0 and not owner then coming = coming + 1 end
--- apply
--@ owner
if writes and (not owner or owner == holder) then
  if milliseconds > 0 then
    owner, ends = holder, now + milliseconds
    call('HSET', meta, lease.field, string.format('%.0f %s', ends, holder))
  elseif owner then
    owner = nil
    call('HDEL', meta, lease.field)
  end
end
reply[said + 1], reply[said + 2], reply[said + 3] = owner == holder and 1 or 0, owner or '', owner and ends - now or 0
said = said + 3

--- describe: limit parts
--- apply
local fields = call('HMGET', meta, 'ttl_seconds', 'sliding_ms')
local total = held and 0 or call('SCARD', keys)
if held or total <= STRANGERS then
  --@ names
  total = #names
end
reply[said + 1], reply[said + 2] = fields[1] or '', fields[2] or ''
reply[said + 3], reply[said + 4], reply[said + 5] = expires > 0 and expires - now or -1, total, 0
local parts_told_at = said + 5
said = parts_told_at
if parts == 1 then
  local all, history = call('HGETALL', meta), call('HGET', meta, 'log:history')
  if not history then all[#all + 1], all[#all + 2] = 'log:history', false end
  for j = 1, #all, 2 do
    local field = all[j]
    --@ place of part
    -- Nobody asked for what has a wrong type.
    local length = place and try(kind == 'map:' and 'HLEN' or 'LLEN', base .. place)
    if type(length) == 'number' and (length > 0 or (kind == 'log:' and all[j + 1])) then
      reply[said + 1], reply[said + 2], reply[said + 3], reply[said + 4] = kind, part, tonumber(all[j + 1]) or 0, length
      said = said + 4
      reply[parts_told_at] = reply[parts_told_at] + 1
    end
  end
end

-- Fragments. ---------------------------------------------------------------------------------------

--- fragment expected entry
-- As `state` counts: absent, present, equal, absent or equal.
if (state == 0 and there) or (state == 1 and not there) or (state >= 2 and not same and (state == 2 or there)) then
  return { UNMET, now, 0, incarnation, index }
end

--- fragment is a log
if log.is_wrong then return { WRONG_TYPE, now, sub(log.field, 5) } end

--- fragment log may come
if count > 0 and not log.named and log.length == 0 and not repeated then coming = coming + 1 end

--- fragment can be added
-- The `amount` to the `value` of `key`.
if value ~= '0' and not string.find(value, '^%-?[1-9]%d*$') then return { NOT_A_COUNTER, now, key } end
if #value > 15 or #amount > 15 then
  local negative = byte(value) == 45
  local digits = negative and sub(value, 2) or value
  if #digits > 19 or (#digits == 19 and digits > (negative and '9223372036854775808' or '9223372036854775807')) then
    return { NOT_A_COUNTER, now, key }
  end
  -- Lua's numbers are exact up to 2^53 only, so large digits are added in two halves.
  if negative == (byte(amount) == 45) then
    local added = negative and sub(amount, 2) or amount
    digits, added = string.rep('0', 19 - #digits) .. digits, string.rep('0', 19 - #added) .. added
    local low = sub(digits, 11) + sub(added, 11)
    local high = sub(digits, 1, 10) + sub(added, 1, 10) + math.floor(low / 1e9)
    if high > 9223372036 or (high == 9223372036 and low % 1e9 > (negative and 854775808 or 854775807)) then
      return { COUNTER_OVERFLOW, now, key }
    end
  end
end

--- fragment unreadable
-- What is there and can't be returned is told as 1.
if reply[said] == true then reply[said] = 1 end

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

--- fragment append
if writes and count > 0 then
  if not log.first then
    call('UNLINK', log.list)
    call('HSET', meta, log.field, 0)
    log.first = 0
  end
  local was_empty = log.length == 0
  for first = from, from + count - 1, 4000 do
    log.length = call('RPUSH', log.list, unpack(ARGV, first, math.min(first + 3999, from + count - 1)))
  end
  if was_empty and expires > 0 then call('PEXPIREAT', log.list, expires) end
end

--- fragment tell extent
reply[said + 1], reply[said + 2] = log.first or 0, log.length
said = said + 2

--- fragment range
-- The records from index `low` to `high`, from the newer end on if `backwards`: where the log stands, the position
-- of the first, how many they are, and those, oldest first.
local begins, ends, found, bytes, step, chunk = low, high, 0, 0, FIRST_STEP, nil
reply[said + 1], reply[said + 2], reply[said + 3], reply[said + 4] = log.first or 0, log.length, 0, 0
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
    reply[said + 4 + found] = record
  end
end
if backwards == 1 then
  begins = ends + 1 - found
  for j = 1, found / 2 do
    local a, b = said + 4 + j, said + 5 + found - j
    reply[a], reply[b] = reply[b], reply[a]
  end
end
reply[said + 3], reply[said + 4] = (log.first or 0) + (found > 0 and begins or log.length), found
said = said + 4 + found

--- fragment owner
-- Who has the lease, if anybody, and until when.
local ends, owner = string.match(lease.text or '', '^(%d+) (.+)$')
ends = tonumber(ends)
if owner and ends <= now then owner = nil end

--- fragment position
-- In a set or a hash, unless it is another server's.
--@ server
local anew = expected ~= '' and expected ~= server
if anew then position = '0' end

--- fragment begin page
reply[said + 1], reply[said + 2], reply[said + 3] = position, server, anew and 1 or 0
reply[said + 4] = 0
local told_at, bytes = said + 4, 0
said = told_at

--- fragment tell entry
-- A value that was evicted is none.
if text then
  reply[said + 1], reply[said + 2] = name, text == true and 1 or text
  said = said + 2
  reply[told_at] = reply[told_at] + 1
end
