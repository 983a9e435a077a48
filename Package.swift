// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

/// For the two programs that people install, and for their floors. Without `--no-export-dynamic` a program exports all
/// symbols of Swift's static libraries, 3.5 MB of names. Packed relocations take 2 MB less; such programs start only with
/// glibc 2.36 or later.
let small: [LinkerSetting] = [
    .unsafeFlags(
        ["-use-ld=lld", "-Xlinker", "--no-export-dynamic", "-Xlinker", "-z", "-Xlinker", "pack-relative-relocs"],
        .when(platforms: [.linux], configuration: .release)
    )
]

let package = Package(
    name: "trafficd",
    products: [
        .executable(name: "trafficd", targets: ["trafficd"]),
        .executable(name: "trafficctl", targets: ["trafficctl"]),
        .library(name: "TrafficKit", targets: ["TrafficKit"]),
        .library(name: "TrafficKitNIO", targets: ["TrafficKitNIO"]),
        .library(name: "TrafficKitAsyncHTTPClient", targets: ["TrafficKitAsyncHTTPClient"]),
        .library(name: "TrafficKitHummingbird", targets: ["TrafficKitHummingbird"]),
        .library(name: "TrafficKitURLSession", targets: ["TrafficKitURLSession"]),
    ],
    traits: [
        .trait(
            name: "TLS",
            description: "https, and HTTP/2 in TrafficKitHummingbird. It compiles BoringSSL, which takes minutes."
        ),
        .default(enabledTraits: ["TLS"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.20.0"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
        // Without its default traits: FullFoundation brings Foundation's internationalisation, 50 MB of a program.
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // The kernel side: bpf/ is compiled by the plugin and embedded in TrafficCapture.
        .systemLibrary(name: "CLibbpf", pkgConfig: "libbpf", providers: [.apt(["libbpf-dev", "libelf-dev"])]),
        .systemLibrary(name: "CLibmd", providers: [.apt(["libmd-dev"])]),
        .systemLibrary(name: "CLinux"),
        .systemLibrary(name: "CNcurses", providers: [.apt(["libncurses-dev"])]),
        .systemLibrary(name: "CSQLite", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CYAML", providers: [.apt(["libyaml-dev"])]),
        .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CZstd", providers: [.apt(["libzstd-dev"])]),
        // Signal handlers of the full screen.
        .target(name: "CTerminal"),
        // A process that walks through network namespaces: forked, so without Swift.
        .target(name: "CNamespaceWalk", cSettings: [.treatAllWarnings(as: .error)]),
        .target(name: "CPrivileges", cSettings: [.treatAllWarnings(as: .error)]),
        .target(name: "CTrafficABI"),
        // Sockets that are files: Swift has no convenient way to name one.
        .target(name: "CUnixSocket", cSettings: [.treatAllWarnings(as: .error)]),
        .executableTarget(name: "bpfembed", dependencies: ["CZlib"], swiftSettings: strict),
        .plugin(
            name: "BPFBuildPlugin",
            capability: .buildTool(),
            dependencies: ["bpfembed"],
            path: "Sources/BPFBuildPlugin"
        ),

        .executableTarget(name: "pageembed", swiftSettings: strict),
        .plugin(
            name: "PageBuildPlugin",
            capability: .buildTool(),
            dependencies: ["pageembed"],
            path: "Sources/PageBuildPlugin"
        ),

        // The core: values, then the pure ledger.
        .target(name: "TrafficLimits", swiftSettings: strict),
        .target(name: "TrafficModel", dependencies: ["TrafficLimits"], swiftSettings: strict),
        // What the capture tells the ledger, and what the API tells its clients besides snapshots.
        .target(name: "TrafficEvents", dependencies: ["TrafficModel"], swiftSettings: strict),
        .target(name: "TrafficDocuments", dependencies: ["TrafficLimits", "TrafficModel"], swiftSettings: strict),
        // Questions to a snapshot: which rows (the filter language), and where each byte is (the audit).
        .target(name: "TrafficQuery", dependencies: ["TrafficDocuments", "TrafficModel"], swiftSettings: strict),
        .target(name: "TrafficAudit", dependencies: ["TrafficModel"], swiftSettings: strict),
        // Rules, and which of them something breaks now.
        .target(
            name: "TrafficAlerts",
            dependencies: ["TrafficDocuments", "TrafficLimits", "TrafficModel", "TrafficQuery"],
            swiftSettings: strict
        ),
        // What a cooperating library tells the daemon: values and their bytes, nothing else.
        .target(name: "TrafficReport", swiftSettings: strict),
        .target(
            name: "TrafficLedger",
            dependencies: [
                "TrafficEvents", "TrafficLimits", "TrafficModel", "TrafficReport",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "Histogram", package: "hdrhistogram-swift"),
            ],
            swiftSettings: strict
        ),

        // The rim: kernel in, text out.
        .target(
            name: "TrafficCapture",
            dependencies: [
                "CLibbpf", "CLinux", "CNamespaceWalk", "CPrivileges", "CTrafficABI", "CZlib", "TrafficDocuments",
                "TrafficEvents", "TrafficLimits", "TrafficModel",
            ],
            swiftSettings: strict,
            plugins: ["BPFBuildPlugin"]
        ),
        // The socket that cooperating programs report to, and what waits there.
        .target(
            name: "TrafficInbox",
            dependencies: [
                "CLinux", "CUnixSocket", "TrafficCapture", "TrafficEvents", "TrafficLimits", "TrafficModel",
                "TrafficReport",
            ],
            swiftSettings: strict
        ),
        .target(
            name: "TrafficExport",
            dependencies: ["TrafficAudit", "TrafficDocuments", "TrafficLimits", "TrafficModel"],
            resources: [
                .embedInCode("AlertNotice.schema.json"), .embedInCode("AlertReport.schema.json"),
                .embedInCode("AuditReport.schema.json"),
                .embedInCode("DoctorReport.schema.json"),
                .embedInCode("ExchangeReport.schema.json"), .embedInCode("HistoryReport.schema.json"),
                .embedInCode("MonthReport.schema.json"), .embedInCode("Snapshot.schema.json"),
            ],
            swiftSettings: strict
        ),
        .target(name: "SQLiteDatabase", dependencies: ["CSQLite"], swiftSettings: strict),
        // Files that only root and the daemon's user can change: the configuration, tokens, keys, certificates.
        .target(name: "TrustedFiles", swiftSettings: strict),
        // What was moved in the minutes, hours, days and months before, in a database.
        .target(
            name: "TrafficHistory",
            dependencies: [
                "CSQLite", "SQLiteDatabase", "TrafficFeed", "TrafficDocuments", "TrafficLimits", "TrafficModel",
                "TrafficQuery",
            ],
            swiftSettings: strict
        ),
        // Sums for monitoring systems, as text for their scrapers.
        .target(
            name: "TrafficMetrics",
            dependencies: ["TrafficDocuments", "TrafficLimits", "TrafficModel"],
            swiftSettings: strict
        ),
        // Requests of our own programs.
        .target(
            name: "HTTPCalls",
            dependencies: [
                "TrafficModel",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl", condition: .when(traits: ["TLS"])),
            ],
            swiftSettings: strict
        ),
        // The same sums, sent to receivers.
        .target(
            name: "TrafficPush",
            dependencies: [
                "CLinux", "CZlib", "HTTPCalls", "SQLiteDatabase", "TrafficFeed", "TrafficMetrics", "TrafficDocuments",
                "TrafficModel",
                "TrustedFiles",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: strict
        ),
        // The page at / and its scripts.
        .target(
            name: "TrafficPage",
            exclude: ["Page"],
            swiftSettings: strict,
            plugins: ["PageBuildPlugin"]
        ),
        .target(
            name: "TrafficFeed",
            dependencies: ["TrafficDocuments", "TrafficLimits", "TrafficModel", "TrafficQuery"],
            swiftSettings: strict
        ),
        .target(
            name: "TrafficAPI",
            dependencies: [
                "CUnixSocket", "TrafficAudit", "TrafficExport", "TrafficFeed", "TrafficMetrics", "TrafficDocuments",
                "TrafficLimits", "TrafficModel",
                "TrafficPage", "TrafficQuery", "TrustedFiles",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdTLS", package: "hummingbird", condition: .when(traits: ["TLS"])),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
                .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras"),
                .product(name: "NIOSSL", package: "swift-nio-ssl", condition: .when(traits: ["TLS"])),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: strict
        ),
        // Files with the snapshots of some time, and what history and alerts make of them.
        .target(
            name: "TrafficRecording",
            dependencies: [
                "CLibmd", "CZstd", "TrafficAlerts", "TrafficExport", "TrafficHistory", "TrafficDocuments",
                "TrafficModel", "TrafficQuery",
            ],
            swiftSettings: strict
        ),
        .target(
            name: "TrafficView",
            dependencies: ["TrafficAudit", "TrafficDocuments", "TrafficLimits", "TrafficModel", "TrafficQuery"],
            swiftSettings: strict
        ),

        // The library that an app links.
        .target(name: "TrafficKit", dependencies: ["CUnixSocket", "TrafficReport"], swiftSettings: strict),
        .target(
            name: "TrafficKitNIO",
            dependencies: [
                "TrafficKit", "TrafficReport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "TrafficKitAsyncHTTPClient",
            dependencies: [
                "TrafficKit", "TrafficKitNIO", "TrafficReport",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "TrafficKitHummingbird",
            dependencies: [
                "TrafficKit", "TrafficKitNIO",
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdHTTP2", package: "hummingbird", condition: .when(traits: ["TLS"])),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2", condition: .when(traits: ["TLS"])),
                .product(name: "NIOSSL", package: "swift-nio-ssl", condition: .when(traits: ["TLS"])),
            ],
            swiftSettings: strict
        ),
        .target(name: "TrafficKitURLSession", dependencies: ["TrafficKit", "TrafficReport"], swiftSettings: strict),

        // What the options of both programs take.
        .target(
            name: "CommandOptions",
            dependencies: [.product(name: "ArgumentParser", package: "swift-argument-parser")],
            swiftSettings: strict
        ),
        // What a daemon is told, and the file that tells it.
        .target(
            name: "TrafficConfiguration",
            dependencies: [
                "CYAML", "CommandOptions", "TrafficAlerts", "TrafficDocuments", "TrafficModel", "TrafficQuery",
                "TrustedFiles",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "trafficd",
            dependencies: [
                "CommandOptions", "CUnixSocket", "TrafficAlerts", "TrafficAPI", "TrafficCapture",
                "TrafficConfiguration", "TrafficFeed", "TrafficHistory", "TrafficInbox", "TrafficLedger",
                "TrafficDocuments", "TrafficEvents", "TrafficLimits", "TrafficModel", "TrafficPush", "TrafficQuery",
                "TrustedFiles",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            swiftSettings: strict,
            linkerSettings: small
        ),
        .executableTarget(
            name: "trafficctl",
            dependencies: [
                "CNcurses", "CommandOptions", "CTerminal", "HTTPCalls", "TrafficAlerts", "TrafficAudit",
                "TrafficConfiguration", "TrafficExport", "TrafficDocuments", "TrafficLimits", "TrafficModel",
                "TrafficQuery", "TrafficRecording",
                "TrafficView",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            swiftSettings: strict,
            linkerSettings: small
        ),

        // A server and a client that use the library, to try it with. Not installed.
        .executableTarget(
            name: "trafficexample",
            dependencies: [
                "TrafficKit", "TrafficKitHummingbird", "TrafficKitNIO",
                .target(name: "TrafficKitAsyncHTTPClient", condition: .when(traits: ["TLS"])),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: .when(traits: ["TLS"])),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdHTTP2", package: "hummingbird", condition: .when(traits: ["TLS"])),
                .product(name: "HummingbirdTLS", package: "hummingbird", condition: .when(traits: ["TLS"])),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl", condition: .when(traits: ["TLS"])),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            path: "Sources/Examples/trafficexample",
            swiftSettings: strict
        ),

        // Makes known traffic and prints what its calls returned: the ground truth of the accuracy tests.
        .executableTarget(
            name: "trafficgen",
            dependencies: ["CUnixSocket"],
            path: "Tests/Tools/trafficgen",
            cSettings: [.treatAllWarnings(as: .error)]
        ),
        // What tests of every module need: programs of the system, numbers that come again.
        .target(
            name: "TestSupport",
            dependencies: ["TrafficReport"],
            path: "Tests/Support/TestSupport",
            swiftSettings: strict
        ),
        // Compares a snapshot with it; one implementation for the tests, scripts/accuracy and the kernel lab.
        .target(
            name: "GroundTruth",
            dependencies: ["TestSupport", "TrafficAudit", "TrafficModel"],
            path: "Tests/Support/GroundTruth",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "trafficcheck",
            dependencies: [
                "GroundTruth", "TestSupport", "TrafficHistory", "TrafficDocuments", "TrafficExport", "TrafficModel",
                "TrafficQuery",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Tests/Tools/trafficcheck",
            swiftSettings: strict
        ),
        // URLSession in a process of its own, which can trust a certificate of the tests.
        .executableTarget(
            name: "trafficfetch",
            dependencies: ["TrafficKit", "TrafficKitURLSession"],
            path: "Tests/Tools/trafficfetch",
            swiftSettings: strict,
            // Foundation's networking stands on libcurl, which `--static-swift-stdlib` leaves to the program to link.
            linkerSettings: [.linkedLibrary("curl")]
        ),
        // Servers of ours and witnesses of others, for the tests of TrafficKit's integrations.
        .target(
            name: "TrafficKitTestSupport",
            dependencies: [
                "CUnixSocket", "TestSupport", "TrafficKit", "TrafficKitNIO", "TrafficReport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            path: "Tests/Support/TrafficKitTestSupport",
            swiftSettings: strict
        ),
        // A target of its own: programs use TestSupport, and programs have no Testing.
        .target(name: "TestTraits", path: "Tests/Support/TestTraits", swiftSettings: strict),
        // Frames that a test forges.
        .target(name: "CTunTap", path: "Tests/Support/CTunTap", cSettings: [.treatAllWarnings(as: .error)]),
        // Parsers of ours beside those of others, on real traffic that is cut and damaged: by the million by hand, in short in the tests.
        .target(
            name: "FuzzCases",
            dependencies: [
                "CTrafficABI", "TestSupport", "TrafficCapture", "TrafficKit", "TrafficEvents", "TrafficModel",
                "TrafficReport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            path: "Tests/Support/FuzzCases",
            resources: [
                .embedInCode("Traffic/http1.txt"), .embedInCode("Traffic/http2.txt"), .embedInCode("Traffic/tls.txt"),
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "trafficfuzz",
            dependencies: ["FuzzCases", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            path: "Tests/Tools/trafficfuzz",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "ledgerbench",
            dependencies: [
                "TrafficExport", "TrafficHistory", "TrafficLedger", "TrafficMetrics", "TrafficDocuments",
                "TrafficEvents", "TrafficModel", "TrafficQuery",
                "TrafficReport",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Tests/Tools/ledgerbench",
            swiftSettings: strict
        ),
        // Programs that only link the libraries of the two: smaller these can't be.
        .executableTarget(
            name: "toolfloor",
            dependencies: [
                "CNcurses", "CSQLite", "CYAML", "CZstd",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl", condition: .when(traits: ["TLS"])),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            path: "Tests/Tools/sizefloor/tool",
            swiftSettings: strict,
            linkerSettings: small
        ),
        .executableTarget(
            name: "daemonfloor",
            dependencies: [
                "CLibbpf", "CSQLite", "CYAML",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdTLS", package: "hummingbird", condition: .when(traits: ["TLS"])),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl", condition: .when(traits: ["TLS"])),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            path: "Tests/Tools/sizefloor/daemon",
            swiftSettings: strict,
            linkerSettings: small
        ),
        // Less than any reporting takes of a server and a client, for the benchmark: nothing of TrafficKit is in it.
        .executableTarget(
            name: "reportfloor",
            dependencies: [
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdHTTP2", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                // For its parser, CNIOLLHTTP, which is no product.
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            path: "Tests/Tools/reportfloor",
            swiftSettings: strict
        ),
        .testTarget(
            name: "HTTPCallsTests",
            dependencies: ["HTTPCalls", .product(name: "NIOHTTP1", package: "swift-nio")],
            swiftSettings: strict
        ),
        .testTarget(name: "TrustedFilesTests", dependencies: ["TestSupport", "TrustedFiles"], swiftSettings: strict),
        .testTarget(name: "CommandOptionsTests", dependencies: ["CommandOptions"], swiftSettings: strict),
        .testTarget(
            name: "FuzzTests",
            dependencies: ["FuzzCases", "TestSupport", "TrafficKit"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficModelTests",
            dependencies: ["TestSupport", "TrafficDocuments", "TrafficEvents", "TrafficLimits", "TrafficModel"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficMetricsTests",
            dependencies: ["TestSupport", "TrafficMetrics", "TrafficDocuments", "TrafficModel"],
            exclude: ["Rules"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficQueryTests",
            dependencies: ["TestSupport", "TrafficModel", "TrafficQuery"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficAlertsTests",
            dependencies: [
                "TestSupport", "TrafficAlerts", "TrafficDocuments", "TrafficLimits", "TrafficModel", "TrafficQuery",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficLedgerTests",
            dependencies: [
                "TestSupport", "TrafficAudit", "TrafficExport", "TrafficLedger", "TrafficEvents", "TrafficLimits",
                "TrafficModel", "TrafficReport",
                "TrafficView",
            ],
            exclude: ["CheckpointFields.txt"],
            resources: [.copy("Recordings")],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficCaptureTests",
            dependencies: [
                "CLibbpf", "CLinux", "CTrafficABI", "CTunTap", "GroundTruth", "TestSupport", "TestTraits",
                "TrafficCapture",
                "TrafficLedger",
                "TrafficDocuments", "TrafficEvents", "TrafficLimits", "TrafficModel",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficInboxTests",
            dependencies: [
                "CUnixSocket", "TestSupport", "TrafficCapture", "TrafficInbox", "TrafficEvents", "TrafficLimits",
                "TrafficModel",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficExportTests",
            dependencies: [
                "TestSupport", "TrafficAudit", "TrafficExport", "TrafficDocuments", "TrafficLimits", "TrafficModel",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficConfigurationTests",
            dependencies: [
                "CommandOptions", "TestSupport", "TrafficAlerts", "TrafficCapture", "TrafficConfiguration",
                "TrafficModel", "TrafficQuery",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficHistoryTests",
            dependencies: [
                "CSQLite", "SQLiteDatabase", "TestSupport", "TrafficFeed", "TrafficHistory", "TrafficDocuments",
                "TrafficModel",
                "TrafficQuery",
            ],
            swiftSettings: strict
        ),
        .testTarget(name: "TrafficFeedTests", dependencies: ["TrafficFeed", "TrafficModel"], swiftSettings: strict),
        .testTarget(
            name: "TrafficAPITests",
            dependencies: [
                "CUnixSocket", "GroundTruth", "TestSupport", "TrafficAlerts", "TrafficAPI", "TrafficAudit",
                "TrafficExport", "TrafficFeed", "TrafficKitTestSupport", "TrafficMetrics", "TrafficDocuments",
                "TrafficModel",
                "TrafficPage", "TrafficQuery", "TrustedFiles", "trafficctl",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdTesting", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficViewTests",
            dependencies: [
                "TestSupport", "TrafficAudit", "TrafficDocuments", "TrafficModel", "TrafficQuery", "TrafficView",
            ],
            exclude: ["Frames"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficRecordingTests",
            dependencies: [
                "TestSupport", "TrafficAlerts", "TrafficExport", "TrafficHistory", "TrafficLimits", "TrafficModel",
                "TrafficQuery",
                "TrafficRecording",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficReportTests",
            dependencies: ["CUnixSocket", "TestSupport", "TrafficReport"],
            exclude: ["Golden", "send_report.py"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficKitNIOTests",
            dependencies: [
                "TestSupport", "TrafficKit", "TrafficKitNIO", "TrafficKitTestSupport", "TrafficReport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficKitAsyncHTTPClientTests",
            dependencies: [
                "TestSupport", "TrafficKit", "TrafficKitAsyncHTTPClient", "TrafficKitTestSupport", "TrafficReport",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficKitHummingbirdTests",
            dependencies: [
                "TestSupport", "TrafficKit", "TrafficKitHummingbird", "TrafficKitTestSupport", "TrafficReport",
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdHTTP2", package: "hummingbird"),
                .product(name: "HummingbirdTLS", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficKitTests",
            dependencies: ["TestSupport", "TrafficKit", "TrafficKitTestSupport", "TrafficReport"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficKitURLSessionTests",
            dependencies: [
                "TestSupport", "TrafficKit", "TrafficKitTestSupport", "TrafficKitURLSession", "TrafficReport",
            ],
            swiftSettings: strict
        ),
        // The comparisons themselves, on made-up numbers: they would be worth nothing if they let a wrong count pass.
        .testTarget(
            name: "GroundTruthTests",
            dependencies: ["GroundTruth", "TestSupport", "TrafficModel"],
            swiftSettings: strict
        ),
        // Parts of the daemon that need no kernel.
        .testTarget(
            name: "TrafficdTests",
            dependencies: [
                "TestSupport", "TrafficAlerts", "TrafficCapture", "TrafficConfiguration", "TrafficHistory",
                "TrafficDocuments", "TrafficModel", "TrafficQuery", "trafficd",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficPushTests",
            dependencies: [
                "TestSupport", "TrafficFeed", "TrafficKitTestSupport", "TrafficMetrics", "TrafficDocuments",
                "TrafficLimits", "TrafficModel", "TrafficPush",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: strict
        ),
        // Whole programs: trafficd and trafficctl as processes, real sockets, a real kernel.
        .testTarget(
            name: "SystemTests",
            dependencies: [
                "CUnixSocket", "GroundTruth", "SQLiteDatabase", "TestSupport", "TestTraits", "TrafficAlerts",
                "TrafficAudit",
                "TrafficCapture",
                "TrafficExport", "TrafficConfiguration", "TrafficHistory", "TrafficKit", "TrafficKitAsyncHTTPClient",
                "TrafficKitNIO", "TrafficLedger", "TrafficKitTestSupport", "TrafficKitURLSession", "TrafficDocuments",
                "TrafficEvents", "TrafficLimits", "TrafficModel",
                "TrafficQuery", "TrafficRecording", "TrafficReport",
                "trafficd",
                "trafficctl", "trafficexample", "trafficfetch", "trafficgen",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            exclude: ["Help"],
            swiftSettings: strict
        ),
    ],
    swiftLanguageModes: [.v6]
)
