-- What each operation, expectation and step on an index does within transact.lua: what it probes, and what it applies. Here are the
-- expectations and what is about a bucket as a whole; the rest is in values.lua, maps.lua, logs.lua and
-- indexes.lua.
--
-- `--- NAME: PARAMETERS` begins one, in the order in which encode.rs writes them. A parameter is
--   key           one of the keys of values: `key` is its name and `slot` its place in `members`
--   log           one of the bucket's logs: `log` is a table, see step 2; likewise `map` and `index`
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
    return { UNMET, now, 0, generation, index }
  end
end

--- expect-room: limit index, limit most
--- probe
if not repeated then
  local created = 0
  for slot = 1, set_count do
    if members[slot] ~= 1 then created = created + 1 end
  end
  local total = created > 0 and exists and call('SCARD', keys) or 0
  if created > 0 and total + created > most and total - STRANGERS + created <= most and total <= MOST_VALUES + STRANGERS then
    --@ names
    total = #names
  end
  if created > 0 and total + created > most then return { UNMET, now, 0, generation, index } end
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
  lease_text = false
  for j = 1, index_count do
    local index = indexes[j]
    index.known, index.next, index.documents, index.terms, index.length, index.is_wrong = false, 0, 0, 0, 0, nil
  end
end

--- lease: text holder, number milliseconds
--- probe
--@ owner
if not repeated and milliseconds > 0 and not owner then coming = coming + 1 end
--- apply
--@ owner
if writes and (not owner or owner == holder) then
  if milliseconds > 0 then
    owner, ends = holder, now + milliseconds
    call('HSET', meta, lease_field, string.format('%.0f %s', ends, holder))
  elseif owner then
    owner = nil
    call('HDEL', meta, lease_field)
  end
end
reply[said + 1], reply[said + 2], reply[said + 3] = owner == holder and 1 or 0, owner or '', owner and ends - now or 0
said = said + 3

--- describe: limit parts
--- apply
local fields = call('HMGET', meta, 'ttl_seconds', 'sliding_ms', 'created_at')
local total = held and 0 or call('SCARD', keys)
if held or total <= STRANGERS then
  --@ names
  total = #names
end
reply[said + 1], reply[said + 2], reply[said + 3] = fields[1] or '', fields[2] or '', fields[3] or ''
reply[said + 4], reply[said + 5], reply[said + 6] = expires > 0 and expires - now or -1, total, 0
local parts_told_at, looked = said + 6, 0
said = parts_told_at
if parts == 1 then
  local all, history = call('HSCAN', meta, '0', 'COUNT', '1000')[2], call('HGET', meta, 'log:history')
  if not history then all[#all + 1], all[#all + 2] = 'log:history', false end
  for j = 1, #all, 2 do
    local field = all[j]
    --@ place of part
    -- A part of a wrong type is passed over.
    local length = place and try(kind == 'log:' and 'LLEN' or 'HLEN', base .. place)
    if kind == 'map:' and type(length) == 'number' and looked + length <= STRANGERS then
      local entries = call('HKEYS', base .. place)
      looked, length = looked + length, 0
      for k = 1, #entries do
        if #entries[k] <= 256 and string.find(entries[k], '^[!-~]+$') then length = length + 1 end
      end
    end
    local next, documents, terms = string.match(kind == 'index:' and all[j + 1] or '', '^(%d+) (%d+) (%d+)$')
    if next and type(length) == 'number' then
      reply[said + 1], reply[said + 2], reply[said + 3] = kind, part, tonumber(next)
      reply[said + 4], reply[said + 5] = tonumber(documents), tonumber(terms)
      said = said + 5
      reply[parts_told_at] = reply[parts_told_at] + 1
    elseif kind ~= 'index:' and type(length) == 'number' and (length > 0 or (kind == 'log:' and all[j + 1])) then
      reply[said + 1], reply[said + 2], reply[said + 3], reply[said + 4] = kind, part, tonumber(string.match(all[j + 1] or '', '^%d+$')) or 0, length
      said = said + 4
      reply[parts_told_at] = reply[parts_told_at] + 1
    end
  end
end

--- fragment expected entry
-- As `state` counts: absent, present, equal, absent or equal.
if (state == 0 and there) or (state == 1 and not there) or (state >= 2 and not same and (state == 2 or there)) then
  return { UNMET, now, 0, generation, index }
end

--- fragment unreadable
-- What is there and can't be returned is reported as 1.
if reply[said] == true then reply[said] = 1 end

--- fragment take room
-- An answer has `found` entries or records, and `bytes` of them.
room, room_bytes = room - found, room_bytes - bytes - found * PIECE_BYTES
if room < 0 then room = 0 end
if room_bytes < 0 then room_bytes = 0 end

--- fragment limited page
-- At least one is named: a page is a step forward, room or not.
local most_names = math.max(1, math.min(most, room))
max_bytes = math.min(max_bytes, room_bytes)

--- fragment names
-- The `names` of all keys.
local names = held or call('SMEMBERS', keys)
--@ only keys

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

--- fragment owner
-- Who has the lease, if anybody, and until when.
local ends, owner = string.match(lease_text or '', '^(%d+) (.+)$')
ends = tonumber(ends)
if owner and ends <= now then owner = nil end

--- fragment position
-- In a set or a hash, unless it is another server's.
--@ server
local again = expected ~= '' and expected ~= server
if again then position = '0' end

--- fragment tell page
-- The `texts` of `names`: none where it does not fit, false where a value was evicted.
local found = 0
reply[said + 1], reply[said + 2], reply[said + 3] = position, server, again and 1 or 0
local told_at = said + 4
said = told_at
for j = 1, #names do
  local text = texts[names[j]]
  if text ~= false then
    reply[said + 1], reply[said + 2] = names[j], text or 1
    said, found = said + 2, found + 1
  end
end
reply[told_at] = found
--@ take room
