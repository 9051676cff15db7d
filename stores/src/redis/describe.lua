-- Tell about a bucket without touching it.

local meta, keys, registry = KEYS[1], KEYS[2], KEYS[4]
local base, bucket = ARGV[1], ARGV[2]
local call, try, byte = redis.call, redis.pcall, string.byte
local UNDERSCORE = 95

local APPLIED, ABSENT, EXPIRED, WRONG_TYPE = 0, 2, 3, 10

local fields = try('HGETALL', meta)
if fields.err then return { WRONG_TYPE, 0, '__meta__' } end
local left = call('PTTL', meta)
if left == -2 or left == 0 then
  local listed = try('SISMEMBER', registry, bucket)
  if type(listed) == 'table' then return { WRONG_TYPE, 0, '__sessions__' } end
  return { listed == 1 and EXPIRED or ABSENT, 0, '', '', '', -1, 0, {} }
end

local created_at, ttl_seconds, sliding_ms, logs = '', '', '', {}
local function describe(log)
  local length = try('LLEN', base .. '__' .. log .. '__')
  if type(length) == 'number' and length > 0 then
    logs[#logs + 1] = log
    logs[#logs + 1] = length
  end
end
describe('history')
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  if field == 'created_at' then created_at = value
  elseif field == 'ttl_seconds' then ttl_seconds = value
  elseif field == 'sliding_ms' then sliding_ms = value
  elseif string.sub(field, 1, 4) == 'log:' and field ~= 'log:history' then describe(string.sub(field, 5)) end
end
local count = try('SCARD', keys)
if type(count) == 'table' then return { WRONG_TYPE, 0, '__keys__' } end
if count <= STRANGERS then
  -- Others can put names into it that are no keys. Of many, they don't matter.
  local names = call('SMEMBERS', keys)
  --@ only keys
  count = #names
end
return { APPLIED, 0, created_at, ttl_seconds, sliding_ms, left, count, logs }
