import ArgumentParser
import CNcurses
import CSQLite
import CYAML
import CZstd
import FoundationEssentials
import NIOCore
import NIOHTTP1
import NIOPosix
import UnixSignals

#if TLS
import NIOSSL
#endif

/// The least that trafficctl can be: a program that links the same libraries and asks one thing of each. `scripts/package`
/// prints its size beside trafficctl's.
@main
struct ToolFloor: AsyncParsableCommand {
    @Argument var path: String
    @Option var host = "localhost"

    func run() async throws {
        let text = try JSONEncoder().encode(["now": Date.now])
        try Data(text).write(to: URL(filePath: self.path))
        var database: OpaquePointer?
        var document = yaml_document_t()
        var parser = yaml_parser_t()
        guard sqlite3_open(self.path, &database) == SQLITE_OK, yaml_parser_load(&parser, &document) == 1,
            ZSTD_decompress(nil, 0, nil, 0) == ZSTD_compress(nil, 0, nil, 0, 3), initscr() != nil
        else { return }
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: self.host, port: 443) { channel in
                channel.eventLoop.makeCompletedFuture {
                    #if TLS
                    let context = try NIOSSLContext(configuration: .makeClientConfiguration())
                    try channel.pipeline.syncOperations.addHandler(
                        NIOSSLClientHandler(context: context, serverHostname: self.host)
                    )
                    #endif
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    return channel
                }
            }
        for await _ in await UnixSignalsSequence(trapping: .sigterm) { try await channel.close() }
    }
}
