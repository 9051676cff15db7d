-- A mark that one store leaves and another looks for, to find out whether they are the same. See transfer/apart.rs.

local mark, deadline, part, text = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]
local call, try = redis.call, redis.pcall

local APPLIED, ABSENT, LATE = 0, 2, 15

--@ clock
if deadline > 0 and now > deadline then return { LATE, now, '' } end

if part == 'leave' then
  call('SET', mark, text, 'PX', 60000)
  return { APPLIED, now }
end
local is_there = try('GET', mark) == text
if part == 'take' and is_there then call('UNLINK', mark) end
return { is_there and APPLIED or ABSENT, now }
