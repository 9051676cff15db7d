-- A page of the registry, without the dead, which are dropped from it on the way.

local registry, prefix = KEYS[1], ARGV[1]
local page = redis.pcall('SSCAN', registry, ARGV[2], 'COUNT', ARGV[3])
if page.err then return { 10, 0, '__sessions__' } end -- a wrong type
local living, dead = {}, {}
for _, bucket in ipairs(page[2]) do
  local left = redis.call('PTTL', prefix .. bucket .. ':__meta__') -- 0: its last millisecond is over
  if left == -1 or left > 0 then living[#living + 1] = bucket else dead[#dead + 1] = bucket end
end
for from = 1, #dead, 4000 do redis.call('SREM', registry, unpack(dead, from, math.min(from + 3999, #dead))) end
return { 0, 0, page[1], living }
