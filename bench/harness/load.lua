-- Sends the requests of a file in turn: a line each, with method, path, If-None-Match and body between tabs.
local requests = {}
local at = 0

init = function(args)
  for line in io.lines(args[1]) do
    local method, path, tag, body = line:match("^([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$")
    local headers = {}
    for name, value in pairs(wrk.headers) do headers[name] = value end
    if tag ~= "" then headers["If-None-Match"] = tag end
    if body ~= "" then
      headers["Content-Type"] = "application/json"
      requests[#requests + 1] = wrk.format(method, path, headers, body)
    else
      requests[#requests + 1] = wrk.format(method, path, headers)
    end
  end
end

request = function()
  at = at % #requests + 1
  return requests[at]
end

done = function(summary, latency)
  local errors = summary.errors
  print(string.format(
    'result {"requests":%d,"us":%d,"errors":%d,"p50":%d,"p99":%d}',
    summary.requests, summary.duration, errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50), latency:percentile(99)
  ))
end
