-- write_lines: keeps lines of the audit, each an id, a tenant and the line; one that is there
-- already is left as it is.
for place = 2, #ARGV, 3 do
  local id, tenant, line = ARGV[place], ARGV[place + 1], ARGV[place + 2]
  if redis.call('ZADD', AUDIT, 0, id .. tenant) == 1 then
    redis.call('ZADD', audit_of(tenant), 0, id .. line)
  end
end
