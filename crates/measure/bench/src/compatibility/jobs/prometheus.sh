# program: Prometheus
# kind: databases
# needs: prometheus promtool curl
# debian: prometheus curl
# checks: promtool tsdb analyze, the number of samples of imported blocks
# survives: every sample that a query had answered with

version() {
    prometheus --version 2>&1 | awk 'NR == 1 { print $3 }'
}

ask() {
    curl -sf "http://127.0.0.1:$PORT1/api/v1/query" --data-urlencode "query=$1" | sed 's/.*"value":\[[^,]*,"\([^"]*\)".*/\1/'
}

start() {
    printf 'global: {scrape_interval: 100ms, scrape_timeout: 100ms}\nscrape_configs: [{job_name: own, static_configs: [{targets: ["127.0.0.1:%s"]}]}]\n' \
        "$PORT1" >"$NOTES/settings.yml"
    prometheus --config.file="$NOTES/settings.yml" --storage.tsdb.path=data --web.listen-address="127.0.0.1:$PORT1" \
        --storage.tsdb.retention.time=100y >>"$NOTES/log" 2>&1 &
    server=$!
    await 30 curl -sf "http://127.0.0.1:$PORT1/-/ready"
}

prepare() {
    # Six hours of a sample every 10 s of ten series, in OpenMetrics.
    now=$(date +%s)
    awk -v end=$((now - 86400)) 'BEGIN { print "# TYPE load gauge"
        for (series = 0; series < 10; series++)
            for (n = 0; n < 2160; n++) printf "load{s=\"%d\"} %d %d\n", series, n % 97, end - (2160 - n) * 10
        print "# EOF" }' >samples
}

work() {
    promtool tsdb create-blocks-from openmetrics "$INPUT/samples" data >/dev/null
    start
    end $server
}

check() {
    promtool tsdb analyze data >/dev/null
    start
    [ "$(ask 'sum(count_over_time(load[30d]))')" = 21600 ] || fail "samples are missing"
    end $server
}

load() {
    start
    await 30 sh -c "curl -sf 'http://127.0.0.1:$PORT1/api/v1/query?query=up' | grep -q value"
    while :; do
        acknowledge "$(ask 'count_over_time(up[1d])')"
    done
}

survived() {
    start
    noted=$(sed -n "$(acknowledged)p" "$NOTES/acknowledged")
    at_least "$(ask 'count_over_time(up[1d])')" "$noted"
    end $server
}
