-- A page of the registry, without the dead, which are dropped from it on the way.

--
-- A position means nothing to another server, nor to this one after a restart: the order of a set is random and
-- each process's own. So is where it keeps things, which tells one from the other; `server` stands for that. From a
-- position of another server's, the page begins at the beginning.

local registry, prefix, position, expected = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
local server = string.sub(redis.sha1hex(tostring(redis)), 1, 8)
local anew = expected ~= '' and expected ~= server
if anew then position = '0' end
local page = redis.pcall('SSCAN', registry, position, 'COUNT', ARGV[3])
if page.err then return { 10, 0, '__sessions__' } end -- a wrong type
local living, dead = {}, {}
for _, bucket in ipairs(page[2]) do
  local left = redis.call('PTTL', prefix .. bucket .. ':__meta__') -- 0: its last millisecond is over
  if left == -1 or left > 0 then living[#living + 1] = bucket else dead[#dead + 1] = bucket end
end
for from = 1, #dead, 4000 do redis.call('SREM', registry, unpack(dead, from, math.min(from + 3999, #dead))) end
return { 0, 0, page[1], living, server, anew and 1 or 0 }
