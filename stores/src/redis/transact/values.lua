
-- The map `values`: each value is a key of Redis, and their names are a set. What is written here is explained in
-- operations.lua.

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
if bytes > max_bytes or bytes > room_bytes or found > MOST_RECORDS or found > room then
  reply[said], reply[said + 1], reply[said + 2] = -1, bytes, found
  said = said + 2
else
  --@ take room
  reply[said] = 0
  for j = 1, #slots do
    said = said + 1
    reply[said] = lengths[j] and (type(lengths[j]) == 'table' or call('GET', base .. ARGV[keys_at + slots[j]]))
    --@ unreadable
  end
end

--- get-all: limit max_entries, limit max_bytes, limit keys_only
--- apply
local names, total, bytes, values, fits = held, nil, 0, {}, false
if not names then
  total = call('SCARD', keys)
  if total <= max_entries + STRANGERS and room > 0 then names = call('SMEMBERS', keys) end
end
-- Strangers among one or two names are looked for only if those do not fit: nearly always they do.
local strangers_left = names and #names <= 2
while names do
  if not strangers_left then
    --@ only keys
  end
  total, bytes, values = #names, 0, {}
  fits = total <= max_entries and total <= room and (total == 0 or room_bytes > 0)
  if fits and keys_only == 1 then
    for j = 1, total do bytes, values[j] = bytes + #names[j], '' end
    fits = bytes <= max_bytes and bytes <= room_bytes
  elseif fits and total > 0 then
    -- Of one or two so much is read at once that it is seen whether it is over the limit, and of most values that is
    -- all. Of more, the lengths come first: what is over the limit is not read. A value that was evicted, or is no
    -- string, is false.
    local most = max_bytes < room_bytes and max_bytes or room_bytes
    for j = 1, total < 2 and total or 2 do
      local value = try('GETRANGE', base .. names[j], 0, most)
      local length = type(value) == 'string' and #value
      -- An empty one is none that is not there.
      if length == 0 and call('EXISTS', base .. names[j]) == 0 then length = false end
      if length and length > most then length = call('STRLEN', base .. names[j]) end
      values[j] = length and value
      if length then bytes = bytes + #names[j] + length end
    end
    for j = 3, total do
      if bytes > max_bytes then break end
      local length = try('STRLEN', base .. names[j])
      if type(length) == 'number' then bytes = bytes + #names[j] + length end
    end
    fits = bytes <= max_bytes and bytes <= room_bytes
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
-- What did not fit was looked at, too.
local found = names and total or 0
--@ take room

--- page: text position, text expected, limit most, number max_bytes, limit keys_only
--- apply
--@ position
--@ limited page
local names
if position == '0' and (held and #held or call('SCARD', keys)) <= most_names then
  names = held or call('SMEMBERS', keys)
else
  local page = call('SSCAN', keys, position, 'COUNT', math.min(most_names, MOST_SCANNED))
  position, names = page[1], page[2]
end
--@ only keys
local texts, fitting, bytes = {}, {}, 0
for j = 1, #names do
  local name = names[j]
  local length = keys_only == 0 and try('STRLEN', base .. name) or 0
  if type(length) == 'number' and bytes + #name + length <= max_bytes then
    bytes = bytes + #name + length
    texts[name], fitting[#fitting + 1] = '', name
  end
end
for first = 1, keys_only == 0 and #fitting or 0, 4000 do
  local addresses = {}
  for j = first, math.min(first + 3999, #fitting) do addresses[#addresses + 1] = base .. fitting[j] end
  local read = call('MGET', unpack(addresses))
  for j = 1, #read do texts[fitting[first + j - 1]] = read[j] end
end
--@ tell page

--- set:
--- apply
-- How many entries are added and removed: counted by what follows.
reply[said + 1], reply[said + 2] = 0, 0
said = said + 2

--- put: key, text value
--- probe
if exists and type(try('STRLEN', base .. key)) == 'table' then return { WRONG_TYPE, now, key } end
--- apply
if writes then
  if members[slot] ~= 1 then reply[said - 1] = reply[said - 1] + 1 end
  --@ set
end

--- put-again: key, text value
--- probe
-- After `clear`, which removes what is the bucket's own, whatever its type.
if exists and members[slot] ~= 1 and type(try('STRLEN', base .. key)) == 'table' then
  return { WRONG_TYPE, now, key }
end
--- apply
if writes then
  -- What was there before was counted as removed.
  local at, by = said - 1, 1
  if members[slot] == 2 then at, by = said, -1 end
  reply[at] = reply[at] + by
  --@ set
end

--- add: key, text amount
--- probe
if exists and not repeated then
  -- As much of it as a counter can have, and one more.
  local value = try('GETRANGE', base .. key, '0', '20')
  if type(value) == 'table' then return { WRONG_TYPE, now, key } end
  if value == '' and (members[slot] ~= 1 or call('EXISTS', base .. key) == 0) then members[slot] = 0
  elseif members[slot] == 1 then
    --@ can be added
  end
end
--- apply
said = said + 1
if not writes then
  local value = members[slot] == 1 and try('GETRANGE', base .. key, '0', '20')
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
if writes and members[slot] == 1 then
  reply[said] = reply[said] + call('UNLINK', base .. key)
  call('SREM', keys, key)
  members[slot], held = 0, nil
end

--- clear:
--- apply
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
  local names, before = all, members
  --@ only keys
  reply[said] = #names
  members, held = {}, {}
  for j = 1, set_count do
    if before[j] == 1 then members[j] = 2 end
  end
end

--- fragment set
-- `value` becomes that of `key`.
if expires > 0 then call('SET', base .. key, value, 'PXAT', expires) else call('SET', base .. key, value) end
if members[slot] ~= 1 then
  call('SADD', keys, key)
  -- The first one may have made the set.
  if expires > 0 and not keys_undated then undated[#undated + 1], keys_undated = keys, true end
  members[slot], held = 1, nil
end
