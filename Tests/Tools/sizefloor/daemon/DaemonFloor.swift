import ArgumentParser
import CLibbpf
import CSQLite
import CYAML
import FoundationEssentials
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import UnixSignals

#if TLS
import HummingbirdTLS
import NIOSSL
#endif

/// The least that trafficd can be: a program that links the same libraries and asks one thing of each. `scripts/package`
/// prints its size beside trafficd's.
@main
struct DaemonFloor: AsyncParsableCommand {
    @Argument var path: String
    @Option var host = "localhost"

    func run() async throws {
        let text = try JSONEncoder().encode(["now": Date.now])
        try Data(text).write(to: URL(filePath: self.path))
        var database: OpaquePointer?
        var document = yaml_document_t()
        var parser = yaml_parser_t()
        guard sqlite3_open(self.path, &database) == SQLITE_OK, yaml_parser_load(&parser, &document) == 1,
            let programs = bpf_object__open(self.path),
            bpf_object__load(programs) == 0
        else { return }
        let router = Router()
        router.get("metrics") { _, _ in self.host }
        #if TLS
        let certificate = try NIOSSLCertificate.fromPEMFile(self.path).map { NIOSSLCertificateSource.certificate($0) }
        let key = try NIOSSLPrivateKeySource.privateKey(NIOSSLPrivateKey(file: self.path, format: .pem))
        let server = try HTTPServerBuilder.tls(
            tlsConfiguration: .makeServerConfiguration(certificateChain: certificate, privateKey: key)
        )
        #else
        let server = HTTPServerBuilder.http1()
        #endif
        let logger = Logger(label: "floor")
        let services = ServiceGroup(
            services: [Application(router: router, server: server, logger: logger)],
            gracefulShutdownSignals: [.sigterm],
            logger: logger
        )
        try await services.run()
    }
}
