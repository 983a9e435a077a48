/// A file of the page that the daemon serves. The page is static: all numbers come from the API.
public struct PageFile: Sendable {
    /// The part of the path after `/page/`.
    public let name: String
    public let mediaType: String
    public let bytes: [UInt8]

    private init(_ name: String, _ mediaType: String, _ bytes: [UInt8]) {
        (self.name, self.mediaType, self.bytes) = (name, mediaType, bytes)
    }

    private static func script(_ name: String, _ bytes: [UInt8]) -> PageFile {
        PageFile(name, "text/javascript; charset=utf-8", bytes)
    }

    private static func style(_ name: String, _ bytes: [UInt8]) -> PageFile {
        PageFile(name, "text/css; charset=utf-8", bytes)
    }

    private static func image(_ name: String, _ bytes: [UInt8]) -> PageFile {
        PageFile(name, "image/svg+xml", bytes)
    }

    /// What the browser asks for first.
    public static let index = PageFile("index.html", "text/html; charset=utf-8", PackageResources.index_html)

    /// What ``index`` needs.
    public static let others: [PageFile] = [
        .script("alerts.js", PackageResources.alerts_js),
        .script("api.js", PackageResources.api_js),
        .script("apis.js", PackageResources.apis_js),
        .script("app.js", PackageResources.app_js),
        .script("audit.js", PackageResources.audit_js),
        .script("auditpanel.js", PackageResources.auditpanel_js),
        .script("chart.js", PackageResources.chart_js),
        .script("display.js", PackageResources.display_js),
        .script("dom.js", PackageResources.dom_js),
        .script("health.js", PackageResources.health_js),
        .script("history.js", PackageResources.history_js),
        .script("historypanel.js", PackageResources.historypanel_js),
        .script("hosts.js", PackageResources.hosts_js),
        .image("icon.svg", PackageResources.icon_svg),
        .script("keys.js", PackageResources.keys_js),
        .script("live.js", PackageResources.live_js),
        .script("month.js", PackageResources.month_js),
        .script("parts.js", PackageResources.parts_js),
        .script("process.js", PackageResources.process_js),
        .script("processes.js", PackageResources.processes_js),
        .script("route.js", PackageResources.route_js),
        .script("scopes.js", PackageResources.scopes_js),
        .script("settings.js", PackageResources.settings_js),
        .script("sockets.js", PackageResources.sockets_js),
        .style("style.css", PackageResources.style_css),
        .script("table.js", PackageResources.table_js),
        .script("text.js", PackageResources.text_js),
        .script("theme.js", PackageResources.theme_js),
        .style("uPlot.min.css", PackageResources.uPlot_min_css),
        .script("uPlot.min.js", PackageResources.uPlot_min_js),
    ]

    /// Whether a path of a request is one of the page's files.
    public static func isPath(_ path: String) -> Bool { path == "/" || path.hasPrefix("/page/") }

    /// The page runs no script and asks no host but the daemon's own. Texts never become markup
    /// (w3.org/TR/trusted-types): names of processes are chosen by strangers.
    public static let contentSecurityPolicy = """
        default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; \
        form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'
        """
}
