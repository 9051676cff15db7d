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

-- Each part by itself, its name's length before it, so that no two buckets are written alike. Sets and hashes have no
-- order: what is put in order is the parts' digests, whose digits every server sorts alike.
local parts = {}
local fields = try('HGETALL', meta)
if fields.err then return { WRONG_TYPE, now, '__meta__' } end
local candidates, seen = { 'log:history' }, {}
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  parts[#parts + 1] = hash('f' .. #field .. ':' .. field .. value)
  candidates[#candidates + 1] = field
end
local held = try('SMEMBERS', keys)
if held.err then return { WRONG_TYPE, now, '__keys__' } end
for _, name in ipairs(held) do
  --@ if its own
    local value = try('GET', base .. name)
    if type(value) == 'table' then return { WRONG_TYPE, now, name } end
    -- One that was evicted is none.
    if value then parts[#parts + 1] = hash('v' .. #name .. ':' .. name .. value) end
  end
end
for _, field in ipairs(candidates) do
  --@ place of part
  if place and kind ~= 'log:' then
    local entries = try('HKEYS', base .. place)
    if entries.err then return { WRONG_TYPE, now, part } end
    for _, key in ipairs(entries) do
      parts[#parts + 1] = hash((kind == 'map:' and 'm' or 'i') .. #part .. ':' .. part .. #key .. ':' .. key .. call('HGET', base .. place, key))
    end
  elseif place and not seen[place] then
    seen[place] = true
    local length, digest = try('LLEN', base .. place), ''
    if type(length) == 'table' then return { WRONG_TYPE, now, part } end
    for from = 0, length - 1, 256 do
      local records = call('LRANGE', base .. place, from, from + 255)
      for i, record in ipairs(records) do records[i] = #record .. ':' .. record end
      digest = hash(digest .. table.concat(records))
    end
    if length > 0 then parts[#parts + 1] = hash('l' .. #part .. ':' .. part .. digest) end
  end
end
table.sort(parts)
local digest = hash(table.concat(parts))
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
