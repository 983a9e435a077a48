import ArgumentParser

struct Processes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "A row per process, with its bytes.",
        discussion: """
            Bytes are payload since counting began: what the process wrote to its sockets and read from them. A \
            process that exited stays in the list for five minutes.

            EXAMPLES
              trafficctl processes --sort rate --limit 10
              trafficctl processes --filter 'unit:nginx.service' --bits
              trafficctl processes --format csv > processes.csv
            """
    )

    @OptionGroup var options: RowOptions

    func run() async throws {
        try await self.options.printProcesses()
    }
}

struct Sockets: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "A row per socket, with its addresses, bytes and owner.",
        discussion: """
            COOKIE is the kernel's number of a socket (SO_COOKIE), which `trafficctl audit --socket` takes. A narrow \
            terminal leaves columns out; a pipe gets all columns.

            EXAMPLES
              trafficctl sockets --filter 'port:80,443 rx>1M'
              trafficctl sockets --filter 'scope:internet -class:own'
              trafficctl sockets --sort received --limit 20
            """
    )

    @OptionGroup var options: RowOptions

    func run() async throws {
        try await self.options.printSockets()
    }
}
