-- Removes a bucket if the digest of all that it holds is the expected one: what the digest does not cover is not
-- removed. One pass over the bucket, during which Redis serves no other client. See transfer/removal.rs; transfer/digest.rs
-- reckons the same digest: what is changed here is changed there.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local deadline, writer, number = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local base = string.sub(meta, 1, -9) -- without `__meta__`
local prefix = string.sub(registry, 1, -13) -- without `__sessions__`
local bucket = string.sub(base, #prefix + 1, -2)
local call, try, byte, hash = redis.call, redis.pcall, string.byte, redis.sha1hex
local UNDERSCORE = 95

local APPLIED, REPEATED, ABSENT, UNMET, WRONG_TYPE, LATE = 0, 1, 2, 6, 10, 15

--@ clock
if deadline > 0 and now > deadline then return { LATE, now, '' } end
local seen = try('HGET', writers, writer)
if type(seen) == 'string' and (tonumber(seen) or 0) >= tonumber(number) then return { REPEATED, now } end
local expires
--@ expiry
if expires ~= -1 and expires <= now then return { ABSENT, now } end

--@ digest of bucket
local expected = tonumber(ARGV[5])
if digest ~= ARGV[4] or math.abs(expires - expected) > tonumber(ARGV[6]) or (expires < 0) ~= (expected < 0) then
  return { UNMET, now }
end
-- A server that is out of memory refuses this and still deletes: a removal repeated finds nothing.
-- Another transfer of the same bucket learns from the second field that it is not lost (see transfer/mod.rs).
local moved = 'moved.' .. (call('HGET', meta, 'created_at') or '')
local until_then = string.format('1.%.0f', now + WRITERS_LIFE_MS)
if type(try('HSET', writers, writer, number .. '.' .. deadline, moved, until_then)) == 'number' then
  call('PEXPIREAT', writers, now + WRITERS_LIFE_MS)
end
--@ empty bucket
try('SREM', registry, bucket)
return { APPLIED, now }
