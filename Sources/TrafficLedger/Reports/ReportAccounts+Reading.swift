import TrafficModel

/// What readers get of the reports.
extension ReportAccounts {
    var isWaiting: Bool { !self.waiting.isEmpty }

    var endpointUsages: [EndpointUsage] { self.endpoints.byRoute }

    var endpointSums: [EndpointSum] { self.endpoints.sumsByRoute }

    var seriesSums: MetricsReading.Sums<EndpointSeries, EndpointSeriesCounts> { self.endpoints.seriesSums }

    func ownEndpoints(of process: ProcessIdentity) -> [ProcessEndpoint] { self.endpoints.own(of: process) }

    var groupedEndpointUsages: [EndpointGrouping: [EndpointUsage]] { self.endpoints.otherwise }

    var exchangeUsages: [ExchangeUsage] { self.exchanges.snapshot }
}
