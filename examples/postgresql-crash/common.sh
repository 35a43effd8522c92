# The server of setup.sh, load.sh and check.sh: as packaged, with its files in the working directory and a socket as its only
# address.
bin=$(dirname "$(ls -d /usr/lib/postgresql/*/bin/initdb | sort -V | tail -1)")
PGHOST=$PWD/data
PGDATABASE=postgres
export PGHOST PGDATABASE

# Starts the server with the settings given as words.
start() {
    set -- listen_addresses= "unix_socket_directories=$PGHOST" dynamic_shared_memory_type=sysv "$@"
    options=
    for setting; do
        options="$options -c $setting"
    done
    "$bin/pg_ctl" start --silent --wait --timeout=240 --pgdata=data --log=data/server.log --options="$options"
}

stop() {
    "$bin/pg_ctl" stop --silent --wait --mode=fast --pgdata=data
}
