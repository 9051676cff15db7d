-- Write a bucket that comes from another store, part by part. The metadata comes last: before it there is no
-- bucket, and whatever an earlier try left is cleared away by the next. See transfer.rs.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local deadline, part, expires = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local base = string.sub(meta, 1, -9)
local call, try, byte = redis.call, redis.pcall, string.byte
local UNDERSCORE = 95

local APPLIED, EXISTS, UNMET, LATE = 0, 4, 6, 15

--@ clock
if deadline > 0 and now > deadline then return { LATE, now, '' } end
local left = call('PTTL', meta) -- 0: its last millisecond is over
local exists = left == -1 or left > 0

if part == 'begin' then
  if exists and ARGV[4] ~= 'overwrite' then return { EXISTS, now } end
  --@ empty bucket
  -- Logs, maps and indexes that an earlier try wrote and nothing names yet.
  for i = 5, #ARGV do
    local field = ARGV[i]
    --@ place of part
    if place then call('UNLINK', base .. place) end
  end
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
if part == 'stamps' then
  -- They outlive a bucket, and may be here already.
  for i = 4, #ARGV, 2 do
    local seen = tonumber(call('HGET', writers, ARGV[i])) or 0
    if seen < tonumber(ARGV[i + 1]) then call('HSET', writers, ARGV[i], ARGV[i + 1]) end
  end
  call('HSET', writers, '~', now + WRITERS_LIFE_MS)
  call('PEXPIREAT', writers, now + WRITERS_LIFE_MS)
elseif part == 'entries' or part == 'fields' then
  if part == 'entries' and ARGV[4] == 'values' then
    for i = 5, #ARGV, 2 do
      call('SADD', keys, ARGV[i])
      if expires > 0 then call('SET', base .. ARGV[i], ARGV[i + 1], 'PXAT', expires)
      else call('SET', base .. ARGV[i], ARGV[i + 1]) end
    end
    if expires > 0 then call('PEXPIREAT', keys, expires) end
  else
    local hash = base .. (part == 'fields' and '__index.' or '__map.') .. ARGV[4] .. '__'
    call('HSET', hash, unpack(ARGV, 5))
    if expires > 0 then call('PEXPIREAT', hash, expires) end
  end
else
  local field, before = 'log:' .. ARGV[4], tonumber(ARGV[5])
  --@ place of part
  local list = base .. place
  local length, count = call('LLEN', list), #ARGV - 5
  -- A try whose answer was lost is not repeated.
  if length == before then
    for from = 6, #ARGV, 4000 do call('RPUSH', list, unpack(ARGV, from, math.min(from + 3999, #ARGV))) end
    if expires > 0 then call('PEXPIREAT', list, expires) end
  elseif length ~= before + count and (expires < 0 or expires > now) then return { UNMET, now } end
end
return { APPLIED, now }
