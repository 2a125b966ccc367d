-- count: how many of the next timers of a tenant, from a place on ('': from the first), have each
-- group and status; before them comes where to go on, or ''.
local tenant, place, most = ARGV[2], ARGV[3], tonumber(ARGV[4])
local behind = place == '' and '-' or '(' .. place
local ids = redis.call('ZRANGEBYLEX', ids_of(tenant), behind, '+', 'LIMIT', 0, most)
local counts = {}
for _, id in ipairs(ids) do
  local timer = cjson.decode(redis.call('HGET', row_of(id), 'rest'))
  local group = counts[timer.group] or {}
  counts[timer.group] = group
  group[timer.status] = (group[timer.status] or 0) + 1
end
local answer = {#ids == most and ids[most] or ''}
for group, statuses in pairs(counts) do
  for status, timers in pairs(statuses) do answer[#answer + 1] = {group, status, timers} end
end
return answer
