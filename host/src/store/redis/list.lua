-- A page of the registry, without the dead, which are dropped from it on the way.

local registry, prefix = KEYS[1], ARGV[1]
local page = redis.call('SSCAN', registry, ARGV[2], 'COUNT', ARGV[3])
local living, dead = {}, {}
for _, bucket in ipairs(page[2]) do
  if redis.call('EXISTS', prefix .. bucket .. ':__meta__') == 1 then living[#living + 1] = bucket
  else dead[#dead + 1] = bucket end
end
for from = 1, #dead, 4000 do redis.call('SREM', registry, unpack(dead, from, math.min(from + 3999, #dead))) end
return { page[1], living }
