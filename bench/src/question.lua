-- The floor: a question, written by hand for this one purpose with the guarantees of transact.lua.
-- KEYS: meta, keys, writers, registry. ARGV: base, bucket, writer, sequence, deadline, ttl, prefix.
local now = 0
local function read_clock()
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  return time
end
local created = redis.call('HGET', KEYS[1], 'created_at')
local expires = redis.call('PEXPIRETIME', KEYS[1])
if expires > 0 then read_clock() end
if expires == -2 or (expires > 0 and expires <= now) then
  local time = read_clock()
  if now > tonumber(ARGV[5]) then return { 15 } end
  local seen = redis.call('HGET', KEYS[3], ARGV[3])
  if seen and tonumber(seen) >= tonumber(ARGV[4]) then return { 2 } end
  redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
  redis.call('PEXPIREAT', KEYS[3], now + 600000)
  for _, key in ipairs(redis.call('SMEMBERS', KEYS[2])) do redis.call('DEL', ARGV[1] .. key) end
  redis.call('DEL', KEYS[1], KEYS[2], ARGV[1] .. '__history__')
  created = string.format('%s.%06d', time[1], tonumber(time[2]))
  redis.call('HSET', KEYS[1], 'created_at', created, 'ttl_seconds', string.format('%.1f', ARGV[6] / 1000))
  redis.call('PEXPIREAT', KEYS[1], now + ARGV[6])
  redis.call('SADD', KEYS[4], ARGV[2])
  for _, name in ipairs(redis.call('SRANDMEMBER', KEYS[4], 2)) do
    if redis.call('EXISTS', ARGV[7] .. name .. ':__meta__') == 0 then redis.call('SREM', KEYS[4], name) end
  end
  return { 0, created, {} }
end
local count = redis.call('SCARD', KEYS[2])
if count > 1000 then return { 0, created, false } end
local keys = redis.call('SMEMBERS', KEYS[2])
local addresses = {}
for i, key in ipairs(keys) do addresses[i] = ARGV[1] .. key end
return { 0, created, keys, count > 0 and redis.call('MGET', unpack(addresses)) or {} }
