-- purge: drops finished timers of these shards that stand in an index behind one place and before
-- another; how many, and where to go on. What was begun anew does not stand there any more; but for
-- a line with a version that is no longer the timer's: an older program has left it behind.
local index, shards, behind, to = prefix .. ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local limit, most = tonumber(ARGV[6]), tonumber(ARGV[7])
local lines = redis.call('ZRANGEBYLEX', index, '(' .. behind, '(' .. to, 'LIMIT', 0, most)
local dropped = 0
for _, line in ipairs(lines) do
  local id, version = line:sub(17, 52), line:sub(54)
  if dropped == limit then break end
  if is_of(shards, id) then
    if version == '' or version == redis.call('HGET', row_of(id), 'version') then
      drop(id)
      dropped = dropped + 1
    else
      redis.call('ZREM', index, line)
    end
  end
end
return {dropped, dropped < limit and #lines == most and lines[most] or ''}
