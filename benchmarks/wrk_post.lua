-- wrk: POST the same body again and again; the body and its headers are files named by variables of the environment.
-- The last line that it prints is JSON: requests, seconds, failures, latencies in microseconds.
local function content(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

wrk.method = "POST"
wrk.body = content(os.getenv("BODY"))
for line in content(os.getenv("HEADERS")):gmatch("[^\n]+") do
  local name, value = line:match("^([^:]+): (.*)$")
  wrk.headers[name] = value
end

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format(
    '{"requests": %d, "seconds": %.6f, "failed": %d, "p50": %d, "p99": %d, "mean": %.1f}',
    summary.requests, summary.duration / 1e6, failed, latency:percentile(50), latency:percentile(99), latency.mean))
end
