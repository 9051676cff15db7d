-- Write a bucket that comes from another store, part by part: beside where it is to be, under a name that no bucket has.
-- The last call puts it in its place, all at once, so that readers see neither half of it nor a gap where it replaces one. What
-- was broken off is cleared away by the next, or goes by itself. See transfer.rs.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local deadline, part, id, expires = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local base = string.sub(meta, 1, -9) -- without `__meta__`
local prefix = string.sub(registry, 1, -13) -- without `__sessions__`
local bucket = string.sub(base, #prefix + 1, -2)
local there = { meta = meta, keys = keys, base = base }
local call, try, byte, hash = redis.call, redis.pcall, string.byte, redis.sha1hex
local UNDERSCORE = 95

local APPLIED, EXISTS, UNMET, WRONG_TYPE, LATE = 0, 4, 6, 10, 15

--@ clock
if deadline > 0 and now > deadline then return { LATE, now, '' } end
local left = call('PTTL', meta) -- 0: its last millisecond is over
local exists = left == -1 or left > 0
local goes_at = now + ARRIVAL_MS

-- From here on the names mean what arrives. Its metadata are the name of its copying, how many values it has, and of each
-- part how long it is.
base = prefix .. '~' .. bucket .. ':'
meta, keys = base .. '__meta__', base .. '__keys__'

if part == 'begin' then
  if exists and ARGV[5] ~= 'overwrite' then return { EXISTS, now } end
  --@ empty bucket
  call('HSET', meta, 'id', id, 'values', 0)
  for i = 6, #ARGV do
    local field = ARGV[i]
    --@ place of part
    -- Also one that no metadata name any more.
    if place then call('UNLINK', base .. place) end
    call('HSET', meta, field, 0)
  end
  call('PEXPIREAT', meta, goes_at)
  return { APPLIED, now }
end

local is_ours = call('HGET', meta, 'id') == id
if part == 'abandon' then
  if is_ours then
    --@ empty bucket
  end
  return { APPLIED, now }
end

if part == 'end' then
  -- It is done, and the answer was lost.
  if call('HGET', writers, id) then return { APPLIED, now } end
  local mode, was = ARGV[5], ARGV[6]
  if exists and mode == 'keep' then return { EXISTS, now } end
  if not is_ours then return { UNMET, now } end
  -- A server that is out of memory refuses this, before anything is gone.
  call('HSET', meta, 'id', id)
  --@ addresses
  -- What expires can have been evicted meanwhile.
  local lengths, all = call('HGETALL', meta), true
  for i = 1, #lengths, 2 do
    local field, length = lengths[i], tonumber(lengths[i + 1])
    --@ place of part
    if place then all = all and call(kind == 'log:' and 'LLEN' or 'HLEN', base .. place) == length
    elseif field == 'values' then all = all and call('SCARD', keys) == length end
  end
  for i = 1, #names do all = all and call('EXISTS', base .. names[i]) == 1 end
  if not all then return { UNMET, now } end

  local arrived, from = addresses, base
  meta, keys, base = there.meta, there.keys, there.base
  if mode == 'unchanged' or mode == 'seen' then
    if not exists then return { EXISTS, now } end
    --@ digest of bucket
    if digest ~= was then return { EXISTS, now } end
    if mode == 'unchanged' then
      --@ expiry
    end
  end
  do
    --@ empty bucket
  end
  for i = 2, #arrived do
    if call('EXISTS', arrived[i]) == 1 then
      local place = base .. string.sub(arrived[i], #from + 1)
      call('RENAME', arrived[i], place)
      if expires > 0 then call('PEXPIREAT', place, expires) else call('PERSIST', place) end
    end
  end
  call('UNLINK', arrived[1])
  call('HSET', meta, unpack(ARGV, 7))
  if expires > 0 then call('PEXPIREAT', meta, expires) end
  call('SADD', registry, bucket)
  call('HSET', writers, id, string.format('1.%.0f', now + SPARE_MS), '~', now + WRITERS_LIFE_MS)
  call('PEXPIREAT', writers, now + WRITERS_LIFE_MS)
  return { APPLIED, now }
end

if not is_ours then return { UNMET, now } end
if part == 'stamps' then
  -- They outlive a bucket, and may be here already.
  for i = 5, #ARGV, 2 do
    local seen = tonumber(call('HGET', writers, ARGV[i])) or 0
    if seen < tonumber(ARGV[i + 1]) then call('HSET', writers, ARGV[i], ARGV[i + 1]) end
  end
  call('HSET', writers, '~', now + WRITERS_LIFE_MS)
  call('PEXPIREAT', writers, now + WRITERS_LIFE_MS)
  return { APPLIED, now }
end

-- What came before it must be there still.
local name, field, key, count = ARGV[5], nil, nil, 'HLEN'
if part == 'records' then field, count = 'log:' .. name, 'LLEN'
elseif part == 'fields' then field = 'index:' .. name
elseif name == 'values' then field, key, count = 'values', keys, 'SCARD'
else field = 'map:' .. name end
if not key then
  --@ place of part
  key = base .. place
end
local length, expected = call(count, key), tonumber(call('HGET', meta, field)) or 0
if length ~= expected then return { UNMET, now } end

if part == 'records' then
  local before = tonumber(ARGV[6])
  -- A try whose answer was lost is not repeated.
  if length == before then
    for from = 7, #ARGV, 4000 do call('RPUSH', key, unpack(ARGV, from, math.min(from + 3999, #ARGV))) end
  elseif length ~= before + #ARGV - 6 then return { UNMET, now } end
elseif field == 'values' then
  for i = 6, #ARGV, 2 do
    call('SADD', keys, ARGV[i])
    call('SET', base .. ARGV[i], ARGV[i + 1], 'PXAT', goes_at)
  end
else
  call('HSET', key, unpack(ARGV, 6))
end
call('PEXPIREAT', key, goes_at)
call('HSET', meta, field, call(count, key))
return { APPLIED, now }
