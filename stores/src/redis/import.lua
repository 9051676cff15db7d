-- Write a bucket that comes from another Redis, part by part. The meta-data come last: before them there is no
-- bucket, and whatever an earlier try left is cleared away by the next. See transfer.rs.

local meta, keys, registry = KEYS[1], KEYS[2], KEYS[4]
local deadline, part, expires = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local base = string.sub(meta, 1, -9)
local call, try = redis.call, redis.pcall

local APPLIED, EXISTS, UNMET, LATE = 0, 4, 6, 15

local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if deadline > 0 and now > deadline then return { LATE, now, '' } end
local left = call('PTTL', meta) -- 0: its last millisecond is over
local exists = left == -1 or left > 0

if part == 'begin' then
  if exists and ARGV[4] ~= 'overwrite' then return { EXISTS, now } end
  local doomed = { meta, keys, base .. '__history__' }
  local fields = try('HKEYS', meta)
  for _, field in ipairs(fields.err and {} or fields) do
    if string.sub(field, 1, 4) == 'log:' then doomed[#doomed + 1] = base .. '__' .. string.sub(field, 5) .. '__' end
  end
  -- Logs that an earlier try wrote and nothing names yet.
  for i = 5, #ARGV do doomed[#doomed + 1] = base .. '__' .. ARGV[i] .. '__' end
  local held = try('SMEMBERS', keys)
  for _, name in ipairs(held.err and {} or held) do
    if not string.find(name, '^__.*__$') then doomed[#doomed + 1] = base .. name end
  end
  for from = 1, #doomed, 4000 do call('UNLINK', unpack(doomed, from, math.min(from + 3999, #doomed))) end
  return { APPLIED, now }
end

if part == 'end' then
  if exists then
    -- Written by an earlier try whose answer was lost, or by somebody else.
    return { call('HGET', meta, ARGV[4]) == ARGV[5] and APPLIED or EXISTS, now }
  end
  call('HSET', meta, unpack(ARGV, 4))
  if expires > 0 then call('PEXPIREAT', meta, expires) end
  local prefix = string.sub(registry, 1, -13) -- without `__sessions__`
  call('SADD', registry, string.sub(base, #prefix + 1, -2))
  return { APPLIED, now }
end

-- Somebody has made a bucket of that name meanwhile: it is not written into.
if exists then return { EXISTS, now } end
if part == 'values' then
  for i = 4, #ARGV, 2 do
    call('SADD', keys, ARGV[i])
    if expires > 0 then call('SET', base .. ARGV[i], ARGV[i + 1], 'PXAT', expires)
    else call('SET', base .. ARGV[i], ARGV[i + 1]) end
  end
  if expires > 0 then call('PEXPIREAT', keys, expires) end
else
  local list, before = base .. '__' .. ARGV[4] .. '__', tonumber(ARGV[5])
  local length, count = call('LLEN', list), #ARGV - 5
  -- A try whose answer was lost is not repeated.
  if length == before then
    for from = 6, #ARGV, 4000 do call('RPUSH', list, unpack(ARGV, from, math.min(from + 3999, #ARGV))) end
    if expires > 0 then call('PEXPIREAT', list, expires) end
  elseif length ~= before + count and (expires < 0 or expires > now) then return { UNMET, now } end
end
return { APPLIED, now }
