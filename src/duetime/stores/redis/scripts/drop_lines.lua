-- drop_lines: forgets lines of the audit with an id before this one, so many at most; how many.
local first, most = ARGV[2], tonumber(ARGV[3])
local lines = redis.call('ZRANGEBYLEX', AUDIT, '-', '(' .. first, 'LIMIT', 0, most)
for _, line in ipairs(lines) do
  forget(audit_of(line:sub(37)), line:sub(1, 36))
  redis.call('ZREM', AUDIT, line)
end
return #lines
