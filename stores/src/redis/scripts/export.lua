-- A part of a bucket as it is stored, byte for byte: its head, some of the entries of a map or an index, some of a log's records, or who
-- may repeat what. To carry a bucket to another store; see transfer.rs.

local meta, keys, writers = KEYS[1], KEYS[2], KEYS[3]
local base, part, max_bytes = string.sub(meta, 1, -9), ARGV[1], tonumber(ARGV[2])
local call, try, byte = redis.call, redis.pcall, string.byte
local UNDERSCORE = 95

local APPLIED, ABSENT, WRONG_TYPE = 0, 2, 10

--@ clock
if part == 'listed' then
  local registry = KEYS[4]
  local bucket = string.sub(base, #registry - 11, -2) -- behind the registry's own prefix
  return { APPLIED, now, try('SISMEMBER', registry, bucket) == 1 and 1 or 0, now }
end
if part == 'moved' then return { APPLIED, now, try('HEXISTS', writers, 'moved.' .. ARGV[3]) == 1 and 1 or 0 } end
local expires
--@ expiry
if expires ~= -1 and expires <= now then return { ABSENT, now } end

if part == 'head' then
  local fields = try('HGETALL', meta)
  if fields.err then return { WRONG_TYPE, now, '__meta__' } end
  local held = try('SMEMBERS', keys)
  if held.err then return { WRONG_TYPE, now, '__keys__' } end
  local names = {}
  for _, name in ipairs(held) do
    --@ if its own
      names[#names + 1] = name
    end
  end
  local maps, logs, indexes = { 'values', names }, {}, {}
  local candidates, seen = { 'log:history' }, {}
  for i = 1, #fields, 2 do candidates[#candidates + 1] = fields[i] end
  for _, field in ipairs(candidates) do
    --@ place of part
    if place and not seen[place] then
      seen[place] = true
      if kind ~= 'log:' then
        local entries = try('HKEYS', base .. place)
        if entries.err then return { WRONG_TYPE, now, part } end
        local told = kind == 'map:' and maps or indexes
        if kind == 'map:' or #entries > 0 then told[#told + 1], told[#told + 2] = part, entries end
      else
        local length = try('LLEN', base .. place)
        if type(length) == 'table' then return { WRONG_TYPE, now, part } end
        if length > 0 then
          logs[#logs + 1] = part
          logs[#logs + 1] = length
        end
      end
    end
  end
  return { APPLIED, now, expires, fields, maps, logs, indexes }
end

local answer, bytes = {}, 0
if part == 'stamps' then
  local stamps = try('HGETALL', writers)
  for i = 1, stamps.err and 0 or #stamps, 2 do
    -- Calls that can't be repeated any more can be forgotten.
    local ends = tonumber(string.match(stamps[i + 1], '%.(%d+)$'))
    if stamps[i] ~= '~' and ends and ends + SPARE_MS >= now then
      answer[#answer + 1], answer[#answer + 2] = stamps[i], stamps[i + 1]
    end
  end
  return { APPLIED, now, answer }
end
if part == 'entries' or part == 'fields' then
  local map = ARGV[3]
  local hash = base .. (part == 'fields' and '__index.' or '__map.') .. map .. '__'
  local is_values = part == 'entries' and map == 'values'
  for i = 4, #ARGV do
    local text
    if is_values then text = try('GET', base .. ARGV[i])
    else text = try('HGET', hash, ARGV[i]) end
    if type(text) == 'table' then return { WRONG_TYPE, now, is_values and ARGV[i] or map } end
    bytes = bytes + #ARGV[i] + (text and #text or 0)
    if bytes > max_bytes and #answer > 0 then break end
    answer[#answer + 1] = text
  end
else
  local field, from = 'log:' .. ARGV[3], tonumber(ARGV[4])
  --@ place of part
  while bytes <= max_bytes do
    local step = call('LRANGE', base .. place, from, from + 255)
    for _, record in ipairs(step) do
      bytes = bytes + #record
      if bytes > max_bytes and #answer > 0 then break end
      answer[#answer + 1] = record
    end
    if #step < 256 then break end
    from = from + 256
  end
end
return { APPLIED, now, answer }
