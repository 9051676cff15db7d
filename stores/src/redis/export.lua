-- A part of a bucket as it is stored, byte for byte: its head, some of its values, or some of a log's records.
-- To carry a bucket to another Redis; see transfer.rs.

local meta, keys = KEYS[1], KEYS[2]
local base, part, max_bytes = string.sub(meta, 1, -9), ARGV[1], tonumber(ARGV[2])
local call, try = redis.call, redis.pcall

local APPLIED, ABSENT, WRONG_TYPE = 0, 2, 10

local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
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
  local names, logs, seen = {}, {}, {}
  for _, name in ipairs(held) do
    if not string.find(name, '^__.*__$') then names[#names + 1] = name end
  end
  local candidates = { 'history' }
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 4) == 'log:' then candidates[#candidates + 1] = string.sub(fields[i], 5) end
  end
  for _, log in ipairs(candidates) do
    if not seen[log] then
      seen[log] = true
      local length = try('LLEN', base .. '__' .. log .. '__')
      if type(length) == 'table' then return { WRONG_TYPE, now, log } end
      if length > 0 then
        logs[#logs + 1] = log
        logs[#logs + 1] = length
      end
    end
  end
  return { APPLIED, now, expires, fields, names, logs }
end

local answer, bytes = {}, 0
if part == 'values' then
  for i = 3, #ARGV do
    local value = try('GET', base .. ARGV[i])
    if type(value) == 'table' then return { WRONG_TYPE, now, ARGV[i] } end
    bytes = bytes + #ARGV[i] + (value and #value or 0)
    if bytes > max_bytes and #answer > 0 then break end
    answer[#answer + 1] = value
  end
else
  local list, from = base .. '__' .. ARGV[3] .. '__', tonumber(ARGV[4])
  while bytes <= max_bytes do
    local step = call('LRANGE', list, from, from + 255)
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
