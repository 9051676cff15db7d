-- Delete a bucket, or just one generation of it, with everything in it, whatever the types: also what a careless
-- program has broken. The writers' numbers stay, so that a late retry of an earlier write revives nothing.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base, bucket, writer, sequence = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local deadline, wanted = tonumber(ARGV[5]), ARGV[6]
local call, try, byte = redis.call, redis.pcall, string.byte
local UNDERSCORE = 95

local APPLIED, REPEATED, ABSENT, EXPIRED, GENERATION_MISMATCH, LATE, FULL = 0, 1, 2, 3, 5, 15, 16

--@ clock
if deadline > 0 and now > deadline then return { LATE, now, '' } end

local seen, known, forgotten = try('HGET', writers, writer), 0, {}
if type(seen) == 'string' then
  if (tonumber(seen) or 0) >= sequence then return { REPEATED, now, 0, {} } end
elseif not seen then
  --@ forget writers
end
-- No writers can be noted in what is no hash: without it, the bucket can come into being again.
local is_broken = type(seen) == 'table'

local left = call('PTTL', meta) -- 0: its last millisecond is over
local exists = left == -1 or left > 0
-- What has broken metadata is no generation that anybody knows.
if exists and wanted ~= '' and try('HGET', meta, 'created_at') ~= wanted then return { GENERATION_MISMATCH, now, 0, {} } end

-- More room than for transactions: a bucket that is flooded by them can still be deleted.
if exists and known > 2 * MOST_WRITERS and #forgotten == 0 then return { FULL, now, 'writers' } end

if is_broken then call('UNLINK', writers) end
-- What deletes nothing is not recorded. A server that is out of memory refuses this and still deletes: a deletion
-- repeated does no harm.
if exists and type(try('HSET', writers, writer, sequence .. '.' .. deadline)) == 'number' then
  call('PEXPIREAT', writers, now + WRITERS_LIFE_MS)
  if #forgotten > 0 then call('HDEL', writers, unpack(forgotten)) end
end

--@ empty bucket
local was_listed = try('SREM', registry, bucket) == 1

if not exists then return { (was_listed or left == 0) and EXPIRED or ABSENT, now, 0, {} } end
--@ only keys
-- The client sorts them.
return { APPLIED, now, #names, #names > MOST_NAMES and {} or names }
