-- Delete a bucket with everything in it, whatever the types: also what a careless program has broken.
-- The writers' numbers stay, so that a late retry of an earlier write revives nothing.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base, bucket, writer, sequence = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local deadline = tonumber(ARGV[5])
local call, try = redis.call, redis.pcall
local CHUNK = 4000

local APPLIED, REPEATED, ABSENT, EXPIRED, LATE = 0, 1, 2, 3, 15

local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if deadline > 0 and now > deadline then return { LATE, now, '' } end

local seen = try('HGET', writers, writer)
if type(seen) == 'string' and tonumber(seen) >= sequence then return { REPEATED, now, {} } end

local left = call('PTTL', meta) -- 0: its last millisecond is over
local exists = left == -1 or left > 0

-- A server that is out of memory refuses this and still deletes: a deletion repeated does no harm.
if type(try('HSET', writers, writer, sequence .. '.' .. deadline)) == 'number' then
  call('PEXPIREAT', writers, now + WRITERS_LIFE_MS)
end

local doomed, names = { meta, keys, base .. '__history__' }, {}
local fields = try('HKEYS', meta)
if not fields.err then
  for _, field in ipairs(fields) do
    if string.sub(field, 1, 4) == 'log:' then doomed[#doomed + 1] = base .. '__' .. string.sub(field, 5) .. '__' end
  end
end
local held = try('SMEMBERS', keys)
if not held.err then
  for _, name in ipairs(held) do
    if not string.find(name, '^__.*__$') then
      names[#names + 1] = name
      doomed[#doomed + 1] = base .. name
    end
  end
end
for from = 1, #doomed, CHUNK do call('DEL', unpack(doomed, from, math.min(from + CHUNK - 1, #doomed))) end
local was_listed = try('SREM', registry, bucket) == 1

if exists then
  table.sort(names)
  return { APPLIED, now, names }
end
return { (was_listed or left == 0) and EXPIRED or ABSENT, now, {} }
