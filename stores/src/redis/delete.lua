-- Delete a bucket with everything in it, whatever the types: also what a careless program has broken.
-- The writers' numbers stay, so that a late retry of an earlier write revives nothing.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base, bucket, writer, sequence = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local deadline = tonumber(ARGV[5])
local call, try, byte = redis.call, redis.pcall, string.byte
local CHUNK, UNDERSCORE = 4000, 95

local APPLIED, REPEATED, ABSENT, EXPIRED, LATE, FULL = 0, 1, 2, 3, 15, 16

local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if deadline > 0 and now > deadline then return { LATE, now, '' } end

local seen, known, forgotten = try('HGET', writers, writer), 0, {}
if type(seen) == 'string' then
  if (tonumber(seen) or 0) >= sequence then return { REPEATED, now, {} } end
elseif not seen then
  --@ forget writers
  -- More room than for transactions: a bucket that is flooded by them can still be deleted.
  if known > 2 * MOST_WRITERS and #forgotten == 0 then return { FULL, now, 'writers' } end
end

local left = call('PTTL', meta) -- 0: its last millisecond is over
local exists = left == -1 or left > 0

-- A server that is out of memory refuses this and still deletes: a deletion repeated does no harm.
if type(try('HSET', writers, writer, sequence .. '.' .. deadline)) == 'number' then
  call('PEXPIREAT', writers, now + WRITERS_LIFE_MS)
  if #forgotten > 0 then call('HDEL', writers, unpack(forgotten)) end
end

local doomed, names = { meta, keys, base .. '__history__' }, {}
local fields = try('HKEYS', meta)
if not fields.err then
  for _, field in ipairs(fields) do
    if string.sub(field, 1, 4) == 'log:' then doomed[#doomed + 1] = base .. '__' .. string.sub(field, 5) .. '__' end
  end
end
local held = try('SMEMBERS', keys)
for j = 1, held.err and 0 or #held do
  local name = held[j]
  --@ if its own
    doomed[#doomed + 1] = base .. name
    names[#names + 1] = name
  end
end
for from = 1, #doomed, CHUNK do call('UNLINK', unpack(doomed, from, math.min(from + CHUNK - 1, #doomed))) end
local was_listed = try('SREM', registry, bucket) == 1

if not exists then return { (was_listed or left == 0) and EXPIRED or ABSENT, now, {} } end
-- The client sorts them, and leaves out those that are no keys.
if #names > MOST_NAMES then names = {} end
return { APPLIED, now, names }
