
-- Maps other than the values: each is one hash. What is written here is explained in operations.lua.

--- expect-map-entry: limit index, map, limit state, text key, text text
--- probe
if not repeated then
  --@ is a map
  local there = map.length > 0 and call('HEXISTS', map.hash, key) == 1
  local same = there and state >= 2 and call('HSTRLEN', map.hash, key) == #text and call('HGET', map.hash, key) == text
  --@ expected entry
end

--- expect-map-room: limit index, map, limit most, texts
--- probe
-- The keys that are set.
if not repeated then
  --@ is a map
  local created = 0
  for j = from, map.length + count > most and from + count - 1 or 0 do
    if map.length == 0 or call('HEXISTS', map.hash, ARGV[j]) == 0 then created = created + 1 end
  end
  if created > 0 and map.length + created > most then return { UNMET, now, 0, generation, index } end
end

--- map-get: map, limit max_bytes, texts
--- probe
--@ is a map
--- apply
local bytes, found = 0, 0
for j = from, map.length > 0 and from + count - 1 or 0 do bytes = bytes + call('HSTRLEN', map.hash, ARGV[j]) end
said = said + 1
local most, is_long = math.min(room, MOST_RECORDS), bytes > max_bytes or bytes > room_bytes
if is_long or (count > most and map.length > most) then
  for j = from, from + count - 1 do found = found + call('HEXISTS', map.hash, ARGV[j]) end
end
if is_long or found > most then
  reply[said], reply[said + 1], reply[said + 2] = -1, bytes, found
  said = said + 2
else
  reply[said], found = 0, 0
  for j = 1, count do reply[said + j] = false end
  for first = from, map.length > 0 and from + count - 1 or 0, 4000 do
    local texts = call('HMGET', map.hash, unpack(ARGV, first, math.min(first + 3999, from + count - 1)))
    for j = 1, #texts do
      reply[said + first - from + j] = texts[j]
      if texts[j] then found = found + 1 end
    end
  end
  said = said + count
  --@ take room
end

--- map-get-all: map, limit max_entries, limit max_bytes, limit keys_only
--- probe
--@ is a map
--- apply
local bytes, all, found = 0, {}, 0
local fits = map.length <= max_entries and map.length <= room and (map.length == 0 or room_bytes > 0)
if fits and map.length > 0 then
  found = map.length
  local names = call('HKEYS', map.hash)
  for j = 1, #names do
    if bytes > max_bytes then break end
    bytes = bytes + #names[j] + (keys_only == 1 and 0 or call('HSTRLEN', map.hash, names[j]))
  end
  fits = bytes <= max_bytes and bytes <= room_bytes
  if fits and keys_only == 0 then all = call('HGETALL', map.hash) end
  for j = 1, fits and keys_only == 1 and #names or 0 do all[2 * j - 1], all[2 * j] = names[j], '' end
end
if fits then
  local total = #all / 2
  reply[said + 1] = total
  for j = 1, total do
    reply[said + 1 + j], reply[said + 1 + total + j] = all[2 * j - 1], all[2 * j]
  end
  said = said + 1 + 2 * total
else
  reply[said + 1], reply[said + 2], reply[said + 3] = -1, bytes, map.length
  said = said + 3
end
-- What did not fit was looked at, too.
--@ take room

--- map-page: map, text position, text expected, limit most, number max_bytes, limit keys_only
--- probe
--@ is a map
--- apply
--@ position
--@ limited page
local names = {}
if map.length == 0 then position = '0'
elseif position == '0' and map.length <= most_names then names = call('HKEYS', map.hash)
else
  -- In small steps, for the texts come along, whatever they are.
  local scanned = 0
  repeat
    local page = call('HSCAN', map.hash, position, 'COUNT', '8')
    position = page[1]
    for j = 1, #page[2], 2 do
      names[#names + 1] = page[2][j]
      scanned = scanned + #page[2][j + 1]
    end
  until position == '0' or #names >= math.min(most_names, MOST_SCANNED) or scanned > max_bytes
  room_bytes = math.max(0, room_bytes - scanned)
end
local texts, fitting, bytes = {}, {}, 0
for j = 1, #names do
  local name = names[j]
  local length = keys_only == 0 and call('HSTRLEN', map.hash, name) or 0
  if bytes + #name + length <= max_bytes then
    bytes = bytes + #name + length
    texts[name], fitting[#fitting + 1] = '', name
  end
end
for first = 1, keys_only == 0 and #fitting or 0, 4000 do
  local read = call('HMGET', map.hash, unpack(fitting, first, math.min(first + 3999, #fitting)))
  for j = 1, #read do texts[fitting[first + j - 1]] = read[j] end
end
--@ tell page

--- map-set: map, limit reset, limit removes, texts
--- probe
-- So many keys to remove, and then of each entry its key and its text. To reset a map is to say that nothing in it
-- counts: also what is no map.
if reset == 0 then
  --@ is a map
end
local count = count - removes
--@ map may come
--- apply
local added, removed = 0, 0
if writes and removes > 0 and map.length > 0 then
  for first = from, from + removes - 1, 4000 do
    removed = removed + call('HDEL', map.hash, unpack(ARGV, first, math.min(first + 3999, from + removes - 1)))
  end
  map.length = map.length - removed
end
from, count = from + removes, count - removes
if reset == 1 and writes and map.known then
  removed = map.length
  -- What is put again was not removed.
  for first = from, map.length > 0 and from + count - 1 or 0, 8000 do
    local again = {}
    for j = first, math.min(first + 7999, from + count - 1), 2 do again[#again + 1] = ARGV[j] end
    added = added - call('HDEL', map.hash, unpack(again))
  end
  removed = removed + added
  call('UNLINK', map.hash)
  map.length = 0
end
if writes and count > 0 then
  local created = 0
  --@ map comes
  for first = from, from + count - 1, 4000 do
    created = created + call('HSET', map.hash, unpack(ARGV, first, math.min(first + 3999, from + count - 1)))
  end
  --@ map has come
  added = added + created
elseif map.known and map.length == 0 and (removed > 0 or reset == 1) and writes then
  call('HDEL', meta, map.field)
  map.known = false
end
reply[said + 1], reply[said + 2] = added, removed
said = said + 2

--- map-add: map, text key, text amount
--- probe
local count = 1
--@ is a map
--@ map may come
if map.length > 0 and not repeated then
  -- No counter is longer.
  if call('HSTRLEN', map.hash, key) > 20 then return { NOT_A_COUNTER, now, key } end
  local value = call('HGET', map.hash, key)
  if value then
    --@ can be added
  end
end
--- apply
said = said + 1
if writes then
  --@ map comes
  local created = 1 - call('HEXISTS', map.hash, key)
  local sum = call('HINCRBY', map.hash, key, amount)
  if sum >= 9007199254740992 or sum <= -9007199254740992 then sum = call('HGET', map.hash, key) end
  reply[said] = sum
  --@ map has come
else
  reply[said] = map.length > 0 and call('HSTRLEN', map.hash, key) <= 20 and call('HGET', map.hash, key) or 0
end

--- mark: log, map, texts
--- probe
-- After the operation that appends. Of each mark its key, and how far its record is from the log's next position.
--@ is a map
--@ map may come
--- apply
if writes and count > 0 then
  local created, next = 0, log.first + log.length
  --@ map comes
  for j = from, from + count - 1, 2 do created = created + call('HSET', map.hash, ARGV[j], next - ARGV[j + 1]) end
  --@ map has come
end

--- fragment is a map
if map.is_wrong then return { WRONG_TYPE, now, sub(map.field, 5) } end

--- fragment map may come
if count > 0 and not map.known and not map.may_come and not repeated then map.may_come, coming = true, coming + 1 end

--- fragment map comes
local was_empty = map.length == 0
if not map.known then
  call('UNLINK', map.hash)
  call('HSET', meta, map.field, '1')
  map.known = true
end

--- fragment map has come
map.length = map.length + created
if was_empty and expires > 0 then undated[#undated + 1] = map.hash end
