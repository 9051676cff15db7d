-- A digest of all that a bucket holds, and its removal if that is still what it was told to be: what is not seen by
-- the digest is not removed. One pass over the bucket, in which Redis serves nobody else. See transfer/removal.rs;
-- transfer/digest.rs reckons the same digest: what is changed here is changed there.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local deadline, task = tonumber(ARGV[1]), ARGV[2]
local base = string.sub(meta, 1, -9) -- without `__meta__`
local prefix = string.sub(registry, 1, -13) -- without `__sessions__`
local bucket = string.sub(base, #prefix + 1, -2)
local call, try, byte, hash = redis.call, redis.pcall, string.byte, redis.sha1hex
local UNDERSCORE = 95

local APPLIED, REPEATED, ABSENT, UNMET, WRONG_TYPE, LATE = 0, 1, 2, 6, 10, 15

--@ clock
if deadline > 0 and now > deadline then return { LATE, now, '' } end
if task == 'remove' then
  local seen = try('HGET', writers, ARGV[3])
  if type(seen) == 'string' and (tonumber(seen) or 0) >= tonumber(ARGV[4]) then return { REPEATED, now } end
end
local expires = try('PEXPIRETIME', meta)
if type(expires) == 'table' then -- before Redis 7
  expires = call('PTTL', meta)
  if expires >= 0 then expires = now + expires end
end
if expires ~= -1 and expires <= now then return { ABSENT, now } end

--@ digest of bucket
if task == 'weigh' then return { APPLIED, now, expires, digest, try('SISMEMBER', registry, bucket) == 1 and 1 or 0 } end

local expected = tonumber(ARGV[6])
if digest ~= ARGV[5] or math.abs(expires - expected) > tonumber(ARGV[7]) or (expires < 0) ~= (expected < 0) then
  return { UNMET, now }
end
-- A server that is out of memory refuses this and still deletes: a removal repeated finds nothing.
if type(try('HSET', writers, ARGV[3], ARGV[4] .. '.' .. deadline)) == 'number' then
  call('PEXPIREAT', writers, now + WRITERS_LIFE_MS)
end
--@ empty bucket
try('SREM', registry, bucket)
return { APPLIED, now }
