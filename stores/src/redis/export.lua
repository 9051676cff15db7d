-- A part of a bucket as it is stored, byte for byte: its head, some of a map's entries, or some of a log's records.
-- To carry a bucket to another Redis; see transfer.rs.

local meta, keys = KEYS[1], KEYS[2]
local base, part, max_bytes = string.sub(meta, 1, -9), ARGV[1], tonumber(ARGV[2])
local call, try, byte = redis.call, redis.pcall, string.byte
local UNDERSCORE = 95

local APPLIED, ABSENT, WRONG_TYPE = 0, 2, 10

--@ clock
local expires = try('PEXPIRETIME', meta)
if type(expires) == 'table' then -- before Redis 7
  expires = call('PTTL', meta)
  if expires >= 0 then expires = now + expires end
end
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
  local maps, logs = { 'values', names }, {}
  local candidates, seen = { 'log:history' }, {}
  for i = 1, #fields, 2 do candidates[#candidates + 1] = fields[i] end
  for _, field in ipairs(candidates) do
    --@ place of part
    if place and not seen[place] then
      seen[place] = true
      if kind == 'map:' then
        local entries = try('HKEYS', base .. place)
        if entries.err then return { WRONG_TYPE, now, part } end
        maps[#maps + 1] = part
        maps[#maps + 1] = entries
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
  return { APPLIED, now, expires, fields, maps, logs }
end

local answer, bytes = {}, 0
if part == 'entries' then
  local map = ARGV[3]
  for i = 4, #ARGV do
    local text
    if map == 'values' then text = try('GET', base .. ARGV[i])
    else text = try('HGET', base .. '__map.' .. map .. '__', ARGV[i]) end
    if type(text) == 'table' then return { WRONG_TYPE, now, map == 'values' and ARGV[i] or map } end
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
