-- A page of the registry, without the dead, which are dropped from it on the way. From a position of another server's,
-- the page begins at the beginning.

local registry, prefix, position, expected = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
local call, try = redis.call, redis.pcall

--@ server
local again = expected ~= '' and expected ~= server
if again then position = '0' end
local page = try('SSCAN', registry, position, 'COUNT', ARGV[3])
if page.err then return { 10, 0, '__sessions__' } end -- a wrong type
local living, dead = {}, {}
for _, bucket in ipairs(page[2]) do
  local left = call('PTTL', prefix .. bucket .. ':__meta__') -- 0: its last millisecond is over
  if left == -1 or left > 0 then living[#living + 1] = bucket else dead[#dead + 1] = bucket end
end
for from = 1, #dead, 4000 do call('SREM', registry, unpack(dead, from, math.min(from + 3999, #dead))) end
return { 0, 0, page[1], living, server, again and 1 or 0 }
