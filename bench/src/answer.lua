-- The floor: an answer, written by hand for this one purpose with the guarantees of transact.lua.
-- KEYS: meta, keys, writers, history, last_answer, answer_count.
-- ARGV: generation, writer, sequence (0: the next), deadline, value, record, record, max_history, keep.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if now > tonumber(ARGV[4]) then return { 15 } end
local meta = redis.call('HMGET', KEYS[1], 'created_at', 'sliding_ms')
local expires = redis.call('PEXPIRETIME', KEYS[1])
if expires == -2 or (expires > 0 and expires <= now) then return { 2 } end
if ARGV[1] ~= '' and ARGV[1] ~= meta[1] then return { 5 } end
local seen = redis.call('HMGET', KEYS[3], ARGV[2], '~')
local sequence = tonumber(ARGV[3])
if sequence == 0 then sequence = tonumber(seen[1] or 0) + 1 end
local repeated = seen[1] and tonumber(seen[1]) >= sequence
local members = redis.call('SMISMEMBER', KEYS[2], 'last_answer', 'answer_count')
redis.call('STRLEN', KEYS[5])
local counter = redis.call('GET', KEYS[6])
if counter and not string.find(counter, '^-?%d+$') then return { 11 } end
local length = redis.call('LLEN', KEYS[4])
if not repeated then
  if tonumber(seen[2] or 0) < now + 300000 then
    redis.call('HSET', KEYS[3], ARGV[2], sequence, '~', now + 600000)
    redis.call('PEXPIREAT', KEYS[3], now + 600000)
  else
    redis.call('HSET', KEYS[3], ARGV[2], sequence)
  end
  if expires > 0 then redis.call('SET', KEYS[5], ARGV[5], 'PXAT', string.format('%.0f', expires))
  else redis.call('SET', KEYS[5], ARGV[5]) end
  counter = redis.call('INCRBY', KEYS[6], 1)
  if expires > 0 and members[2] == 0 then redis.call('PEXPIREAT', KEYS[6], expires) end
  if members[1] == 0 or members[2] == 0 then
    redis.call('SADD', KEYS[2], 'last_answer', 'answer_count')
    if expires > 0 then redis.call('PEXPIREAT', KEYS[2], expires) end
  end
  length = redis.call('RPUSH', KEYS[4], ARGV[6], ARGV[7])
  if expires > 0 and length == 2 then redis.call('PEXPIREAT', KEYS[4], expires) end
end
local surplus = {}
if length > tonumber(ARGV[8]) then
  -- The filter would fold these with a second script; here they are cut off at once.
  surplus = redis.call('LRANGE', KEYS[4], 0, length - ARGV[9] - 1)
  redis.call('LTRIM', KEYS[4], length - ARGV[9], -1)
end
return { 0, meta[1], counter, length, surplus }
